"""A run's configuration as frozen dataclasses, validated before anything runs."""
