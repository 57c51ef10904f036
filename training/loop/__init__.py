"""The loop: collect, score, credit, update; with the cold start before it and evaluations on the way."""
