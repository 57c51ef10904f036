"""The page of a board: one HTML file with its numbers, its episodes, and its levels to play."""
