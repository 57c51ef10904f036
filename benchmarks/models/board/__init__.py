"""A board on disk: what is measured on what, its lines with their seals, and its verification."""
