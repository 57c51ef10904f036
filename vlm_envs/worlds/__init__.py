"""The worlds, each with dynamics, view, and task."""
