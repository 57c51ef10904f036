"""What the trainer asks of models: log-probabilities, values, and a step of the optimiser."""
