"""Loaders for local copies of public datasets; nothing is downloaded."""
