"""Playing what a board lacks: who plays, how far it is, what it takes, and what it would take."""
