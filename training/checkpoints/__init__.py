"""A run's state on disk: written aside, then renamed."""
