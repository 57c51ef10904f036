"""How responses are drawn; apart from the sampler, so that a command line can be read without torch."""

from __future__ import annotations

from dataclasses import dataclass

from vlm_envs.ranges import require_at_least, require_between


@dataclass(frozen=True, kw_only=True)
class SamplingConfig:
    """How responses are drawn.

    Attributes:
        temperature: Divides the logits; 0 takes the most likely token.
        top_p: Smallest probability mass kept, in (0, 1]; 1 keeps all.
        max_new_tokens: Tokens a response may have.

    Raises:
        ConfigError: If a value is out of range.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    max_new_tokens: int = 128

    def __post_init__(self) -> None:
        require_at_least(self, 0, "temperature")
        require_between(self, 0, 1, "top_p", includes=(False, True))
        require_at_least(self, 1, "max_new_tokens")
