"""The one training loop and what it is made of."""

# Raised when the same spec gives other bits than before, so that old results are not taken for new ones.
VERSION = 1
