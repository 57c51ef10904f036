"""How an answer is drawn."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MAX_TOKENS = 16_384
"""Default limit of a response; reasoning models think for thousands of tokens before they answer."""


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How an answer is drawn, and what else the request says. A provider refuses what it has no name for.

    Attributes:
        max_tokens: Longest answer, reasoning included where the provider counts it so.
        temperature: At least 0; None for the provider's default, the only one that some reasoning models take.
        top_p: Nucleus, above 0 and at most 1; None for the provider's default.
        reasoning: How much the model may think: an effort such as `"low"` or, where the provider counts, a budget of
            tokens such as `"2048"`; empty for the provider's default.
        seed: For providers that sample repeatably, as far as they do; None for none.
        stop: Texts that end an answer.
        top_k: Only the likeliest k tokens are drawn; None for the provider's default.
        detail: How closely images are read, such as `"low"` or `"high"`; empty for the provider's default.
        max_completion_tokens: Whether a compatible server is sent the limit under OpenAI's newer name.
        extra_body: JSON object that is merged into the request; empty for none.
    """

    max_tokens: int = MAX_TOKENS
    temperature: float | None = None
    top_p: float | None = None
    reasoning: str = ""
    seed: int | None = None
    stop: tuple[str, ...] = ()
    top_k: int | None = None
    detail: str = ""
    max_completion_tokens: bool = False
    extra_body: str = ""

    @property
    def extra(self) -> Mapping[str, Any]:
        """The object in `extra_body`."""
        extra: Mapping[str, Any] = json.loads(self.extra_body) if self.extra_body else {}
        return extra
