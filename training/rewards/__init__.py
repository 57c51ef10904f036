"""Turn rewards: the world's reward plus the judges' terms."""
