"""Boards on disk: their specification, sealed lines, merging, and verification."""
