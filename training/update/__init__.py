"""The update: losses, micro-batches, and the learner."""
