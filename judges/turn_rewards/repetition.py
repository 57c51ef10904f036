"""The repetition penalty: a text that the policy keeps writing, and that is wrong, costs a little.

Source: VAGEN, appendix D.1.2: a text among the most frequent of the history (a) whose F1 is below 0.7 (b) is
penalised by 0.1 where both hold. Choices, as the paper leaves them open: the history is a window of recent
texts; ties at the k-th place all count as frequent; a text needs two earlier uses to be a repetition at all,
or every text would be among the most frequent while the history is short.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vlm_envs.errors import ConfigError

_TOLERANCE = 1e-9
"""Keeps an F1 that is 0.7 up to rounding from counting as below 0.7."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RepetitionConfig:
    """When repetition is penalised, and by how much.

    Attributes:
        top_k: How many of the most frequent texts count as frequent, at least 1.
        f1_threshold: Texts scoring below this are wrong, in [0, 1].
        penalty: Reward of a wrong repeated text, at most 0.
        min_count: Earlier uses that make a text repeated, at least 1.
        window: Recent texts that are remembered, at least 1.
    """

    top_k: int = 10
    f1_threshold: float = 0.7
    penalty: float = -0.1
    min_count: int = 2
    window: int = 10_000

    def __post_init__(self) -> None:
        """Refuses values that make the penalty inert or turn it into a bonus."""
        if min(self.top_k, self.min_count, self.window) < 1:
            raise ConfigError(f"top_k, min_count and window must be at least 1, got {self}.")
        if not 0.0 <= self.f1_threshold <= 1.0:
            raise ConfigError(f"f1_threshold must lie in [0, 1], got {self.f1_threshold}.")
        if self.penalty > 0.0:
            raise ConfigError(f"penalty must be at most 0, got {self.penalty}. Write it as a negative reward.")


class RepetitionPenalty:
    """Remembers recent texts and penalises those that are frequent and wrong.

    A batch is judged against the history before it, then joins it; the order within a batch changes neither
    the rewards nor the history. Texts are kept as digests, so that checkpoints stay small.

    Args:
        config: The paper's values by default.
    """

    def __init__(self, config: RepetitionConfig | None = None) -> None:
        self.config = config or RepetitionConfig()
        self._history: deque[str] = deque()
        self._counts: Counter[str] = Counter()

    def penalize(self, texts: Sequence[str], scores: Sequence[float]) -> list[float]:
        """Returns the penalties of a batch against the history, which then remembers it.

        Args:
            texts: The batch's texts; case and spacing are ignored when they are compared.
            scores: Their scores, in [0, 1]; NaN (no score) is never penalised.

        Raises:
            ConfigError: The lengths differ.
        """
        if len(texts) != len(scores):
            raise ConfigError(f"Expected one score for each text, got {len(texts)} texts and {len(scores)} scores.")
        digests = [_digest(text) for text in texts]
        frequent_from = self._frequent_from()
        wrong_below = self.config.f1_threshold - _TOLERANCE
        penalties = [
            self.config.penalty if self._counts[digest] >= frequent_from and score < wrong_below else 0.0
            for digest, score in zip(digests, scores, strict=True)
        ]
        self._remember(digests)
        return penalties

    def _frequent_from(self) -> int:
        """Returns the earlier uses from which a text is among the top k."""
        top_counts = heapq.nlargest(self.config.top_k, self._counts.values())
        kth = top_counts[-1] if len(top_counts) == self.config.top_k else 0
        return max(kth, self.config.min_count)

    def _remember(self, digests: list[str]) -> None:
        # Sorted, so that which texts of a batch fall out of the window first does not depend on its order.
        for digest in sorted(digests):
            self._history.append(digest)
            self._counts[digest] += 1
        while len(self._history) > self.config.window:
            oldest = self._history.popleft()
            self._counts[oldest] -= 1
            if not self._counts[oldest]:
                del self._counts[oldest]

    def state_dict(self) -> dict[str, Any]:
        """Returns the history, for a checkpoint: JSON types only."""
        return {"history": list(self._history)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from the history that `state_dict` returned.

        Raises:
            ConfigError: The state has no history.
        """
        if "history" not in state:
            raise ConfigError(f"Expected a state with 'history', got the keys {sorted(state)}.")
        self._history, self._counts = deque(), Counter()
        for digest in state["history"]:
            self._history.append(digest)
            self._counts[digest] += 1


def _digest(text: str) -> str:
    normal_form = " ".join(text.casefold().split())
    return hashlib.blake2b(normal_form.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
