"""How whole rows go through a model in the update."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

from agents.hf.model_families import family_of
from agents.hf.row_passes import can_share_prefixes
from training.config.update.memory import MemoryConfig
from vlm_envs.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class RowPass:
    """How whole rows go through a model.

    Attributes:
        recomputes_layers: Whether layers keep only what goes into them, where there is a backward pass.
        packs_rows: Whether rows go one behind the other, as a single one without padding.
        shares_prefixes: Whether what several rows begin with goes through once, without padding.
    """

    recomputes_layers: bool = False
    packs_rows: bool = False
    shares_prefixes: bool = False


def row_pass_of(model: Any, memory: MemoryConfig) -> RowPass:
    """Returns how rows go through a model.

    Raises:
        ConfigError: If rows are to be packed that would see each other, for the family makes its own masks; if its
            attention is to be one that takes none; or if prefixes are to be shared and cannot.
    """
    can_pack, is_flash = not family_of(model).keeps_images_whole, "flash" in str(model.config._attn_implementation)
    if memory.packing == "on" and not can_pack:
        raise ConfigError(
            f"--memory.packing on: rows of {model.config.model_type} cannot be told apart within one, for the tokens "
            "of its pictures see each other in both directions. Use --memory.packing off."
        )
    if is_flash and not can_pack:
        raise ConfigError(
            f"--memory.attention {model.config._attn_implementation}: flash attention takes no masks, which "
            f"{model.config.model_type} needs, for the tokens of its pictures see each other in both directions. Use "
            "--memory.attention sdpa."
        )
    packs = memory.packing == "on" or (memory.packing == "auto" and is_flash and can_pack)
    shares = memory.prefix_sharing == "on" or (memory.prefix_sharing == "auto" and not packs)
    if memory.prefix_sharing == "on" and not can_share_prefixes(model):
        raise ConfigError(
            f"--memory.prefix-sharing on: {model.config.model_type} with the attention "
            f"{model.config._attn_implementation} cannot share them: it takes --memory.attention sdpa, and tokens that "
            "see all before them and none behind. Use --memory.prefix-sharing auto."
        )
    return RowPass(
        recomputes_layers=memory.gradient_checkpointing,
        packs_rows=packs,
        shares_prefixes=shares and can_share_prefixes(model),
    )


@contextmanager
def recomputed_layers(model: nn.Module) -> Iterator[None]:
    """Makes the layers of a model keep only what goes into them, in forward passes within the block.

    transformers' own switch asks a model to be in training mode, with whatever dropout its checkpoint has, and stays
    on when the same model samples. Here only the layers themselves count as in training, and only within the block:
    what the backward pass computes anew no longer asks.
    """
    layers: list[Any] = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    before = [(layer.training, layer.gradient_checkpointing) for layer in layers]
    for layer in layers:
        layer.training = layer.gradient_checkpointing = True
        layer._gradient_checkpointing_func = partial(checkpoint, use_reentrant=False)
    try:
        yield
    finally:
        for layer, (was_training, had_checkpoints) in zip(layers, before, strict=True):
            layer.training, layer.gradient_checkpointing = was_training, had_checkpoints
