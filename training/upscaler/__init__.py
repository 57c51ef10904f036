"""Training of the super-resolution network that enlarges crops."""
