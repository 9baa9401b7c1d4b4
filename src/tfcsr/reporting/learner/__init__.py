"""What a learner knows, for a reader."""
