"""The models and processes of an update: log-probabilities, values, and optimizer steps."""
