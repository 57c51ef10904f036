"""How responses are drawn; apart from the sampler, so that a command line can be read without torch."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class SamplingConfig:
    """How responses are drawn.

    Attributes:
        temperature: Divides the logits; 0 takes the most likely token.
        top_p: Smallest probability mass kept, in (0, 1]; 1 keeps all.
        max_new_tokens: Tokens a response may have.

    Raises:
        ValueError: If a value is out of range.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    max_new_tokens: int = 128

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < math.inf or not 0 < self.top_p <= 1 or self.max_new_tokens < 1:
            raise ValueError(
                f"Expected temperature >= 0 and finite, 0 < top_p <= 1 and max_new_tokens >= 1; got {self}."
            )
