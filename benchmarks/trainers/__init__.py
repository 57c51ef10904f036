"""Whole training iterations, ours and those of peers, on equal work."""
