"""Who scores: exact readers of state text, the papers' episode rewards, and judges that ask a model."""

import vlm_envs  # noqa: F401  # first of all, since it reports missing packages in one line
