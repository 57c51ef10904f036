"""Worlds made of other people's Gymnasium environments: `vlm_envs.adapt`."""
