"""Advantages and losses, as pure functions of tensors."""
