"""How an answer is drawn."""

from __future__ import annotations

from dataclasses import dataclass

MAX_TOKENS = 16_384
"""Default limit of a response; reasoning models think for thousands of tokens before they answer."""


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How an answer is drawn.

    Attributes:
        max_tokens: Longest answer, reasoning included where the provider counts it so.
        temperature: At least 0; None for the provider's default, the only one that some reasoning models take.
        top_p: Nucleus, above 0 and at most 1; None for the provider's default.
        reasoning: How much the model may think: an effort such as `"low"` or, where the provider counts, a budget of
            tokens such as `"2048"`; empty for the provider's default.
    """

    max_tokens: int = MAX_TOKENS
    temperature: float | None = None
    top_p: float | None = None
    reasoning: str = ""
