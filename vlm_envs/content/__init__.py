"""Generators of world content: homes, scenes, reports, and flawed responses."""
