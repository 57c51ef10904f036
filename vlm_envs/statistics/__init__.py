"""Confidence intervals and tests: success rates, resampling, paired tests, repeated attempts, and power."""
