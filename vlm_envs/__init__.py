"""VLM worlds for Gymnasium: `import vlm_envs; gymnasium.make("VLM/Sokoban-v0")`."""

from vlm_envs.registration import env_ids, make, make_vec, register, register_worlds

__version__ = "0.1.0"
__all__ = ["__version__", "env_ids", "make", "make_vec", "register"]

register_worlds()
