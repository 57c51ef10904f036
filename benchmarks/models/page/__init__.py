"""A board's HTML page with its results and episodes."""
