"""The exact judge: reads a model's description of the state by rule and compares it with the true state."""
