"""Mixtures of worlds: their weights, and the copies that each iteration plays."""
