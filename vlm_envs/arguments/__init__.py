"""Checks of what users write: numbers, `module:factory` names, and modules of their own that fail."""
