"""The worlds: one package each, with dynamics, view and task."""
