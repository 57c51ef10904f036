"""VLM worlds for Gymnasium: `import vlm_envs; gymnasium.make("VLM/Sokoban-v0")`."""

from vlm_envs.requirements import require_packages

require_packages()  # before the imports below, which would otherwise fail

from vlm_envs.adapter.adapter_settings import adapt  # noqa: E402
from vlm_envs.moved import MOVED, alias_modules  # noqa: E402
from vlm_envs.registration import env_ids, make, make_vec, register, register_worlds  # noqa: E402

__version__ = "0.1.0"
__all__ = ["__version__", "adapt", "env_ids", "make", "make_vec", "register"]

register_worlds()
alias_modules(MOVED)
