"""A run's configuration as frozen dataclasses, and what is refused before anything runs."""
