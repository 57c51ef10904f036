"""The loop: collect, score, credit, update, with evaluations on the way."""
