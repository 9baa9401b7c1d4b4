"""Continual learning by replay and spaced recall."""

__version__ = "0.1.0"
