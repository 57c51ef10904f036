"""Judging text of a table: positions of named things in millimetres."""
