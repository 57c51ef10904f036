"""Shared code of grid worlds: directions, level text, spatial relations, and tile art."""
