"""From a batch to changed weights: losses, micro-batches, and the learner."""
