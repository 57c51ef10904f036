"""Models that verify what others wrote: how likely an answer is, and where in a picture the thing a label names is.

They satisfy the protocols of `judges.episode_rewards.argos` without importing them; a trainer binds them to each
episode's pictures.
"""
