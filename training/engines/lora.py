"""In-place LoRA adapters (peft): module paths and layer names of the model stay the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from training.config.update_config import LoRAConfig
from vlm_envs.errors import ConfigError
from vlm_envs.validation import did_you_mean

_BASE = ".base_layer."
_ADAPTER = ".lora_"


def add_adapters(model: Any, config: LoRAConfig) -> None:
    """Adds adapters to linear layers of a model's decoder and freezes all other weights; outputs do not change yet.

    Args:
        model: A model of a supported family.
        config: Settings with a rank.

    Raises:
        ConfigError: If no linear layer has one of the requested names.
    """
    from peft import LoraConfig, inject_adapter_in_model  # an optional dependency

    decoder = model.model.get_decoder()
    prefix = next(name for name, module in model.named_modules() if module is decoder)
    linear = [name for name, module in decoder.named_modules() if isinstance(module, nn.Linear)]
    available = sorted({name.rpartition(".")[2] for name in linear})
    for name in config.target_modules:
        if name not in available:
            raise ConfigError(
                f"--lora.target-modules {name}: no linear layer of the language model has this "
                f"name.{did_you_mean(name, available)} Available: {', '.join(available)}."
            )
    wanted = config.target_modules or available
    targets = [f"{prefix}.{name}" for name in linear if name.rpartition(".")[2] in wanted]
    assert config.rank is not None, "adapters have a rank"
    # peft annotates int, but only divides by the rank
    alpha: Any = config.alpha
    inject_adapter_in_model(LoraConfig(r=config.rank, lora_alpha=alpha, target_modules=targets), model)


def _adapted_layers(model: nn.Module) -> dict[str, Any]:
    """Returns the layers with adapters by name."""
    return {name: module for name, module in model.named_modules() if hasattr(module, "lora_A")}


def has_adapters(model: nn.Module) -> bool:
    """Returns whether a model has adapters."""
    return bool(_adapted_layers(model))


@contextmanager
def adapters_off(model: nn.Module) -> Iterator[None]:
    """Disables the adapters of a model within the block."""
    layers = _adapted_layers(model).values()
    for layer in layers:
        layer.enable_adapters(False)
    try:
        yield
    finally:
        for layer in layers:
            layer.enable_adapters(True)


def adapter_state(model: nn.Module) -> dict[str, Tensor]:
    """Returns the trained tensors of a model with adapters, including a critic's head."""
    frozen = {name for name, weight in model.named_parameters(remove_duplicate=False) if not weight.requires_grad}
    return {name: value for name, value in model.state_dict().items() if name not in frozen}


@torch.no_grad()
def merged_state(model: nn.Module) -> dict[str, Tensor]:
    """Returns the weights with adapters merged, in host memory.

    The model is unchanged: merging and unmerging in place would round the base weights each time.
    """
    layers, merged = _adapted_layers(model), {}
    for name, value in model.state_dict().items():
        layer = layers.get(name.partition(_BASE)[0])
        if _ADAPTER in name:
            continue
        if layer is not None and name.endswith(f"{_BASE}weight"):
            value = (value.float() + _change(layer)).to(value.dtype)
        merged[_plain(name)] = value.cpu()
    return merged


def _change(layer: Any) -> Tensor:
    """Returns the weight update of a layer's adapters in float32, which peft's own method would round."""
    a, b = (layers["default"].weight.float() for layers in (layer.lora_A, layer.lora_B))
    change: Tensor = layer.scaling["default"] * (b @ a)
    return change


def _plain(name: str) -> str:
    return name.replace(_BASE, ".")
