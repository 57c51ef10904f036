"""Whether adapters can be had, asked before anything costly."""

from __future__ import annotations

import importlib.util

from training.config.lora import LoRAConfig
from vlm_envs.errors import ConfigError


def require_peft(lora: LoRAConfig) -> None:
    """Refuses adapters where the package that makes them is missing.

    Raises:
        ConfigError: If a rank is given and peft is not installed.
    """
    if lora.rank is not None and importlib.util.find_spec("peft") is None:
        raise ConfigError(
            f"--lora.rank {lora.rank} needs the package peft, which is not installed. Install it: pip install "
            "'vlm-envs[scale]'; or train the weights themselves: --lora.rank None."
        )
