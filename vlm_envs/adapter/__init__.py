"""Worlds built from other Gymnasium environments: `vlm_envs.adapt`."""
