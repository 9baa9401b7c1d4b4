"""The reproduction for a reader: figures in the paper's form, a page with every table, and lines for a terminal."""
