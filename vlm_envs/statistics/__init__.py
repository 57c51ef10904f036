"""How sure numbers are, and how sure differences: rates, resampling, tests, repeated attempts, and power."""
