"""Ablations: whether each paper's central claim shows on the tiny VLM, its method beside what it is said to beat."""
