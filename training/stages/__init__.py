"""Staged runs: curations, fine-tunings, and reinforcement learning in turn."""
