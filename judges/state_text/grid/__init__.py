"""Which cell things are in, and on which side of each other, in grid worlds."""
