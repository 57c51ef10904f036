"""LoRA adapters (peft) in a model, in place: where its parts are and what its layers are called stays as it was."""

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
    """Puts adapters beside linear layers of a model's decoder and freezes everything else. They change nothing yet.

    Args:
        model: A model of a known family.
        config: With a rank.

    Raises:
        ConfigError: If no linear layer has one of the names that were asked for.
    """
    from peft import LoraConfig, inject_adapter_in_model  # An extra, of which only runs with adapters know

    decoder = model.model.get_decoder()
    prefix = next(name for name, module in model.named_modules() if module is decoder)
    linear = [name for name, module in decoder.named_modules() if isinstance(module, nn.Linear)]
    known = sorted({name.rpartition(".")[2] for name in linear})
    for name in config.target_modules:
        if name not in known:
            raise ConfigError(
                f"--lora.target-modules {name}: no linear layer of the language model is called that."
                f"{did_you_mean(name, known)} There are {', '.join(known)}."
            )
    wanted = config.target_modules or known
    targets = [f"{prefix}.{name}" for name in linear if name.rpartition(".")[2] in wanted]
    assert config.rank is not None, "adapters have a rank"
    # peft's annotation is of whole numbers; it divides, no more
    alpha: Any = config.alpha
    inject_adapter_in_model(LoraConfig(r=config.rank, lora_alpha=alpha, target_modules=targets), model)


def _adapted_layers(model: nn.Module) -> dict[str, Any]:
    """Returns the layers with adapters by name; none in a model without."""
    return {name: module for name, module in model.named_modules() if hasattr(module, "lora_A")}


def has_adapters(model: nn.Module) -> bool:
    """Returns whether `add_adapters` was applied to a model, or to what it is a copy of."""
    return bool(_adapted_layers(model))


@contextmanager
def adapters_off(model: nn.Module) -> Iterator[None]:
    """Makes a model what it was before it had adapters, within the block."""
    layers = _adapted_layers(model).values()
    for layer in layers:
        layer.enable_adapters(False)
    try:
        yield
    finally:
        for layer in layers:
            layer.enable_adapters(True)


def adapter_state(model: nn.Module) -> dict[str, Tensor]:
    """Returns what is trained of a model with adapters, and what else of it is not the base's: a critic's head."""
    frozen = {name for name, weight in model.named_parameters(remove_duplicate=False) if not weight.requires_grad}
    return {name: value for name, value in model.state_dict().items() if name not in frozen}


@torch.no_grad()
def merged_state(model: nn.Module) -> dict[str, Tensor]:
    """Returns the weights of a model without adapters that says what this one says, in the host's memory.

    The model is left as it is: merging in place and back again would round its base anew each time.
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
    """Returns what adapters add to a layer's weight, float32; peft's own answer is rounded to the adapters' type."""
    a, b = (each["default"].weight.float() for each in (layer.lora_A, layer.lora_B))
    change: Tensor = layer.scaling["default"] * (b @ a)
    return change


def _plain(name: str) -> str:
    return name.replace(_BASE, ".")
