"""Whether the packages that a run saves memory with can be had, asked before anything costly."""

from __future__ import annotations

import importlib.util

from training.config.update.lora import LoRAConfig
from training.config.update.memory import MemoryConfig
from vlm_envs.errors import ConfigError
from vlm_envs.requirements import install_command


def require_peft(lora: LoRAConfig) -> None:
    """Refuses adapters where the package that makes them is missing.

    Raises:
        ConfigError: If a rank is given and peft is not installed.
    """
    if lora.rank is not None and importlib.util.find_spec("peft") is None:
        raise ConfigError(
            f"--lora.rank {lora.rank} needs the package peft, which is not installed. Install it: "
            f"{install_command('scale')}; or train the weights themselves: --lora.rank None."
        )


def require_attention(memory: MemoryConfig) -> None:
    """Refuses flash attention where its package is missing.

    Raises:
        ConfigError: If it is asked for and flash-attn is not installed.
    """
    if memory.attention == "flash_attention_2" and importlib.util.find_spec("flash_attn") is None:
        raise ConfigError(
            "--memory.attention flash_attention_2 needs the package flash-attn, which is not installed. Install it: "
            "pip install flash-attn --no-build-isolation; or leave the choice to transformers: --memory.attention None."
        )
