"""The exact judge: reads a model's description of the state and compares it with the true one, by rule."""
