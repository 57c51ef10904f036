"""Who learns: batches, advantages, losses, optimisation, checkpoints and recipes."""

import vlm_envs  # noqa: F401  # first of all, since it reports missing packages in one line
