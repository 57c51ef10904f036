"""Playing what a board lacks: who plays, how far it is, and what it takes or would take."""
