"""Curation: who plays and is shown what, what is kept, and the data set that comes of it."""
