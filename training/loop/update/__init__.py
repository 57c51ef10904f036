"""From a batch to changed weights: credit, losses, gradients and the learner, in micro-batches that fit the memory."""
