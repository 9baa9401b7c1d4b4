"""The datasets: reading, validating and fetching them."""
