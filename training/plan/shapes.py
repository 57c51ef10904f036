"""What a checkpoint's config.json says of a model's size, counted on a model that has shapes and no memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from agents.hf.families.seen import vision_parts
from training.engines.sharding import decoder_layers
from training.plan.meta_run import on_meta_device
from vlm_envs.errors import ConfigError
from vlm_envs.validation import require


@dataclass(frozen=True, kw_only=True)
class ModelShape:
    """Elements of a model, a policy or a critic.

    Attributes:
        num_parameters: All weights, those that two parts share counted once.
        num_trained: Those that an optimiser steps.
        num_vision: Those of the vision tower, with what leads from it to the language model.
        num_frozen_vision: Those of it that are not trained.
        num_embeddings: Those of the embeddings of tokens.
        num_head: Those of the head; 0 where it shares the embeddings.
        largest_weight: The largest of its tensors.
        largest_layer: The largest decoder layer, of which FSDP2 gathers one after the other.
        num_outside_layers: All that is in no decoder layer, a trained vision tower too, which FSDP2 gathers as a whole.
        cached_per_token: Keys and values of a token.
        vocab_size: Tokens there are.
    """

    num_parameters: int
    num_trained: int
    num_vision: int
    num_frozen_vision: int
    num_embeddings: int
    num_head: int
    largest_weight: int
    largest_layer: int
    num_outside_layers: int
    cached_per_token: int
    vocab_size: int

    @property
    def num_language(self) -> int:
        """Weights that a token goes through: neither embeddings nor head nor vision tower."""
        return self.num_parameters - self.num_vision - self.num_embeddings - self.num_head


def model_without_memory(directory: Path, dtype: Any) -> Any:
    """Returns a checkpoint's model on the meta device, from its config.json alone.

    Args:
        directory: Has a config.json.
        dtype: Type of the weights.

    Raises:
        ConfigError: If the configuration is of no such model.
    """
    from huggingface_hub.errors import StrictDataclassError
    from transformers import AutoConfig, AutoModelForImageTextToText

    try:
        config = AutoConfig.from_pretrained(directory, local_files_only=True)
        with on_meta_device():
            model = AutoModelForImageTextToText.from_config(config, dtype=dtype)
    except (OSError, ValueError, KeyError, AttributeError, TypeError, StrictDataclassError) as error:
        raise ConfigError(
            f"{directory / 'config.json'} does not describe a model: {' '.join(str(error).split())}"
        ) from error
    _require_one_width(config, directory)
    model.tie_weights()
    return model.eval()


def _require_one_width(config: Any, directory: Path) -> None:
    """Refuses a vision tower whose vectors are not as wide as those of the text that they go among."""
    width, shown = config.get_text_config().hidden_size, getattr(config.vision_config, "out_hidden_size", None)
    require(
        shown is None or shown == width or config.model_type not in ("qwen2_5_vl", "qwen3_vl"),
        f"{directory / 'config.json'}: vision_config.out_hidden_size is {shown}, but the text's "
        f"hidden_size is {width}; they have to be equal.",
    )


def shape_of(model: Any, language: Any) -> ModelShape:
    """Returns the size of a policy or a critic.

    Args:
        model: The whole; its weights may be without memory.
        language: The checkpoint's model with its head, as transformers has it, that a critic was made from.
    """
    sizes = _sizes(model)
    decoder, embeddings = model.model.get_decoder(), model.model.get_input_embeddings()
    head = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    num_head = 0 if head is None or head.weight is embeddings.weight else head.weight.numel()
    layers = [_num_elements(each) for each in decoder_layers(model)]
    tower = {id(weight): weight for part in vision_parts(model) for weight in part.parameters()}.values()
    is_trained = any(weight.requires_grad for weight in tower)
    num_frozen_vision = 0 if is_trained else sum(weight.numel() for weight in tower)
    text = language.config.get_text_config()
    head_dim = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    return ModelShape(
        num_parameters=sum(sizes.values()),
        num_trained=sum(weight.numel() for weight in model.parameters() if weight.requires_grad),
        num_vision=_num_elements(model.model) - _num_elements(decoder),
        num_frozen_vision=num_frozen_vision,
        num_embeddings=embeddings.weight.numel(),
        num_head=num_head,
        largest_weight=max(sizes.values()),
        largest_layer=max(layers, default=0),
        num_outside_layers=sum(sizes.values()) - sum(layers) - num_frozen_vision,
        cached_per_token=2 * text.num_hidden_layers * text.num_key_value_heads * head_dim,
        vocab_size=text.vocab_size,
    )


def _sizes(module: nn.Module) -> dict[str, int]:
    return {name: weight.numel() for name, weight in module.named_parameters()}


def _num_elements(module: nn.Module) -> int:
    return sum(_sizes(module).values())
