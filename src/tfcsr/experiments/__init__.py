"""From specs to runs to statistics."""
