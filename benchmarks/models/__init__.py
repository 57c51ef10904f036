"""Boards: models and agents compared on the same levels."""
