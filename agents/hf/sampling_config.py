"""Sampling settings and the limit of conversation length; no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from vlm_envs.errors import ConfigError
from vlm_envs.validation import field_name, require, require_at_least, require_between

_MIN_TEMPERATURE, _MIN_TOP_P = 0.01, 0.05
"""Below these, sampling is greedy in all but name; greedy sampling must be requested by a temperature of 0."""


@dataclass(frozen=True, kw_only=True)
class SamplingConfig:
    """Sampling settings.

    Attributes:
        temperature: Divides the logits, at least 0.01; or 0 for greedy sampling.
        top_p: Smallest probability mass kept, in [0.05, 1]; 1 keeps all.
        max_new_tokens: Most tokens of a response.
        prefill_chunk_tokens: Most prompt columns that are fed at once, which bounds the memory of long prompts; all by
            default. The samples are the same.
        max_context_tokens: Most tokens of a conversation, prompts and responses; by default, the model's number of
            positions. An observation that leaves no room for a response ends its episode as truncated.
        max_image_pixels: Most pixels of an image, in all of its tiles; larger images are scaled down by the setting of
            the checkpoint's image processor, which is saved with the model. The processor's own limit by default.

    Raises:
        ConfigError: If a value is out of range.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    max_new_tokens: int = 128
    prefill_chunk_tokens: int | None = None
    max_context_tokens: int | None = None
    max_image_pixels: int | None = None

    def __post_init__(self) -> None:
        require_drawable(self)
        require_at_least(self, 1, "prefill_chunk_tokens", "max_context_tokens", "max_image_pixels")


def require_drawable(config: Any) -> None:
    """Checks the temperature, top-p, and length of a configuration with these fields; None means not set and passes.

    Raises:
        ConfigError: If a value is out of range.
    """
    require_at_least(config, 0, "temperature")
    temperature = config.temperature
    require(
        temperature is None or temperature == 0 or temperature >= _MIN_TEMPERATURE,
        f"{field_name(config, 'temperature')} must be at least {_MIN_TEMPERATURE}, or 0 for the likeliest token; got "
        f"{temperature}.",
    )
    require_between(config, _MIN_TOP_P, 1, "top_p")
    require_at_least(config, 1, "max_new_tokens")


class ContextSettings(Protocol):
    """Settings that limit the length of conversations."""

    @property
    def max_context_tokens(self) -> int | None:
        """Most tokens of a conversation; None for the model's number of positions."""


def context_limit(model_config: Any, sampling: ContextSettings) -> int:
    """Returns the token limit of a conversation.

    Raises:
        ConfigError: If it is set above the model's number of positions.
    """
    num_positions = int(model_config.get_text_config().max_position_embeddings)
    limit = sampling.max_context_tokens
    if limit is not None and limit > num_positions:
        raise ConfigError(
            f"{field_name(sampling, 'max_context_tokens')} must be at most {num_positions}, the model's number of "
            f"positions; got {limit}."
        )
    return num_positions if limit is None else limit


def require_room(num_tokens: int, limit: int, sampling: SamplingConfig) -> None:
    """Refuses a first prompt that leaves no room for a response.

    Args:
        num_tokens: Tokens of the prompt.
        limit: Most tokens of a conversation, as `context_limit` returns it.
        sampling: Sampling settings.

    Raises:
        ConfigError: If there is no room.
    """
    if num_tokens + sampling.max_new_tokens <= limit:
        return
    raise ConfigError(
        f"The first prompt has {num_tokens} tokens, and with a response of up to {sampling.max_new_tokens} that is "
        f"more than the context of {limit}. Show less (a shorter prompt, smaller images: "
        f"{field_name(sampling, 'max_image_pixels')}), lower "
        f"{field_name(sampling, 'max_new_tokens')}, raise {field_name(sampling, 'max_context_tokens')}, or use a "
        "model with more positions."
    )
