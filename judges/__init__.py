"""Who scores: exact readers of state text, the papers' episode rewards, and judges that ask a model."""
