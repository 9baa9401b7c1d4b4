"""Our own claims for a reader: a page with every table and figure, and lines for a terminal."""
