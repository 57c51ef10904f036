"""Who learns: batches, advantages, losses, optimisation, checkpoints and recipes."""
