"""Algorithms: a frozen dataclass each, in a file each, over pure functions of tensors in `functional`."""
