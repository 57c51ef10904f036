"""Boards: models and agents measured on the same levels."""
