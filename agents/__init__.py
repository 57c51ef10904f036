"""Who acts: oracle, random, transformers models; and the one rollout loop that training and evaluation share."""

import vlm_envs  # noqa: F401  # first of all, since it reports missing packages in one line
