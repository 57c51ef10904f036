"""What is found out before a run leaves anything behind."""
