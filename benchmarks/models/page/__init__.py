"""The page of a board: one HTML file with its numbers and its episodes."""
