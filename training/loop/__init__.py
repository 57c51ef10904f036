"""The training loop: collect, score, assign credit, update, and evaluate."""
