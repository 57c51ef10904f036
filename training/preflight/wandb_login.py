"""Whether Weights & Biases takes a run, asked before anything costly."""

from __future__ import annotations

import importlib.util

from training.wandb_client import import_wandb
from vlm_envs.errors import ConfigError
from vlm_envs.requirements import install_command

_WITHOUT_LOGIN = ("offline", "dryrun", "disabled")


def require_wandb(project: str | None) -> None:
    """Refuses to log to W&B where it cannot be: without its package, or without a login that its server takes.

    Args:
        project: The project that is asked for; None for none, which needs nothing.

    Raises:
        ConfigError: If the package is missing, or, unless `WANDB_MODE` is offline or disabled, there is no login.
    """
    if project is None:
        return
    if importlib.util.find_spec("wandb") is None:
        raise ConfigError(
            f"--wandb-project {project} needs the package wandb, which is not installed. Install it: "
            f"{install_command('wandb')}; or leave the option out, TensorBoard is written anyway."
        )
    wandb = import_wandb()
    try:
        if wandb.setup().settings.mode not in _WITHOUT_LOGIN:
            wandb.login(verify=True)
    except Exception as error:
        reason = " ".join(str(error).split())
        raise ConfigError(
            f"--wandb-project {project}: W&B takes no login here ({reason}) Log in with `wandb login`, or set "
            "WANDB_MODE=offline to log to the run's folder and upload it later with `wandb sync`."
        ) from error
