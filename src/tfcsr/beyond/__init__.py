"""Our own claims: what goes beyond the paper, as runs, and what they show."""
