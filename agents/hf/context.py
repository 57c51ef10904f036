"""How long conversations may get, and what is said where one has no room from the start."""

from __future__ import annotations

from typing import Any, Protocol

from agents.hf.sampling import SamplingConfig
from vlm_envs.errors import ConfigError
from vlm_envs.validation import field_name


class ContextSettings(Protocol):
    """Settings that limit how long conversations get."""

    @property
    def max_context_tokens(self) -> int | None:
        """Most tokens of a conversation; None for the model's positions."""


def context_limit(model_config: Any, sampling: ContextSettings) -> int:
    """Returns the most tokens that a conversation may have.

    Raises:
        ConfigError: If it is set to more than the model has positions.
    """
    num_positions = int(model_config.get_text_config().max_position_embeddings)
    limit = sampling.max_context_tokens
    if limit is not None and limit > num_positions:
        raise ConfigError(
            f"{field_name(sampling, 'max_context_tokens')} must be at most {num_positions}, the positions that the "
            f"model was made for; got {limit}."
        )
    return num_positions if limit is None else limit


def require_room(num_tokens: int, limit: int, sampling: SamplingConfig) -> None:
    """Refuses a first prompt that leaves no room for a response.

    Args:
        num_tokens: Of the prompt.
        limit: Most tokens of a conversation, as `context_limit` returns it.
        sampling: How responses are drawn.

    Raises:
        ConfigError: If there is none.
    """
    if num_tokens + sampling.max_new_tokens <= limit:
        return
    raise ConfigError(
        f"The first prompt has {num_tokens} tokens, and with a response of up to {sampling.max_new_tokens} that is "
        f"more than the context of {limit}. Show less (a shorter prompt, smaller pictures: "
        f"{field_name(sampling, 'max_image_pixels')}), lower "
        f"{field_name(sampling, 'max_new_tokens')}, raise {field_name(sampling, 'max_context_tokens')}, or take a "
        "model with more positions."
    )
