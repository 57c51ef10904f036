"""What a client has used up so far: tokens, requests, cost."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """Counts since a client was made.

    Attributes:
        num_questions: Replies asked for.
        num_cached: Of these, answered from the cache: no request, no cost.
        num_unavailable: Of these, without a readable reply in the end.
        num_requests: Requests sent, further attempts included.
        num_failed_requests: Of these, without a usable reply.
        num_unreadable: Replies that came whole but held no verdict in the asked form.
        num_counted: Replies whose tokens the endpoint counted, usable or not.
        num_uncounted: Replies whose tokens the endpoint did not count; they are missing from the cost.
        prompt_tokens: Tokens sent, as the endpoint counted them.
        completion_tokens: Tokens received, unreadable replies included.
        reasoning_tokens: Of these, tokens of thoughts.
        counted_usd: Cost of the replies that were counted; 0 where no price is known.
        is_priced: Whether the model's price is known.
    """

    num_questions: int = 0
    num_cached: int = 0
    num_unavailable: int = 0
    num_requests: int = 0
    num_failed_requests: int = 0
    num_unreadable: int = 0
    num_counted: int = 0
    num_uncounted: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    counted_usd: float = 0.0
    is_priced: bool = True

    @property
    def usd(self) -> float | None:
        """Cost; None where the price is not known, which is not the same as free."""
        return self.counted_usd if self.is_priced else None

    def __str__(self) -> str:
        """Returns the counts on one line, for reports."""
        return (
            f"{self.num_questions} questions ({self.num_cached} cached, {self.num_unavailable} unavailable), "
            f"{self.num_requests} requests ({self.num_failed_requests} failed, {self.num_unreadable} unreadable), "
            f"{self.prompt_tokens} + {self.completion_tokens} tokens"
            f"{f' ({self.num_uncounted} replies uncounted)' if self.num_uncounted else ''}"
            f"{'' if self.usd is None else f', {self.usd:.4f} USD'}"
        )


class UsageMeter:
    """Counts from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._usage = Usage()

    def add(self, **counts: float) -> None:
        """Adds to the counts named."""
        with self._lock:
            after: dict[str, Any] = {name: getattr(self._usage, name) + count for name, count in counts.items()}
            self._usage = replace(self._usage, **after)

    def snapshot(self) -> Usage:
        """Returns the counts up to now."""
        with self._lock:
            return self._usage
