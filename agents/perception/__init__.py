"""Frozen vision models: detector, segmenter, likelihoods, similarity, super-resolution; loaded from disk.

They satisfy the protocols of their users (judges, worlds, and tools) without importing them. Nothing is ever
downloaded: missing weights raise a `WeightsUnavailableError` with the expected location.
"""
