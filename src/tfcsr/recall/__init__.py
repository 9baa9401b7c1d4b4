"""The paper's idea, usable on its own in anyone's loop: the probe and its schedule."""
