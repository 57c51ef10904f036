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


@dataclass(frozen=True, kw_only=True)
class RowPass:
    """How whole rows go through a model.

    Attributes:
        recomputes_layers: Whether layers keep only what goes into them, where there is a backward pass.
        packs_rows: Whether rows go one behind the other, as a single one without padding.
    """

    recomputes_layers: bool = False
    packs_rows: bool = False


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
