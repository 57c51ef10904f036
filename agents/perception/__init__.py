"""Frozen models that look: detector, segmenter, likelihoods, similarity, super-resolution; from weights on disk.

They satisfy the protocols of those who ask them, judges, worlds and tools, without importing them. Nothing is ever
downloaded: what is missing is a `WeightsUnavailableError` that says where it was looked for.
"""
