"""Loaders for a user's own copies of public data sets; nothing is fetched from anywhere."""
