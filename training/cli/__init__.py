"""`python -m training`: recipes and options to a configuration."""
