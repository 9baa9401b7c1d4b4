"""The three scenarios: our methods beside somebody else's code, as runs, and what they show."""
