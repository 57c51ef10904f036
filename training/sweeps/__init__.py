"""Sweeps: a paper's tables as one command, a run for each row and seed."""
