"""The repetition penalty: a frequent text that is incorrect costs a little.

Source: VAGEN, appendix D.1.2: a penalty of 0.1 for a text that is among the most frequent of the history (a) and scores
below 0.7 (b), by which "the agent is blindly repeating an incorrect answer". Choices:

- Condition (b) is measured by precision, the share of the stated facts that are true, where the paper prints F1. F1
  is also low for a text that is correct and incomplete, such as "The player is below the box, and the box is below
  the target." (F1 0.533 by the exact judge, precision 1), which the paper itself lists as good.
- The history is a window of recent texts, and ties at the k-th rank all count as frequent.
- A text needs two earlier uses to count as repeated, or every text would be among the most frequent while the history
  is short.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vlm_envs.validation import require, require_at_least, require_between

_TOLERANCE = 1e-9
"""Keeps a precision that is 0.7 up to rounding from counting as below 0.7."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RepetitionConfig:
    """When repetition is penalised, and by how much.

    Attributes:
        top_k: How many of the most frequent texts count as frequent, at least 1.
        precision_threshold: Texts with a lower precision are incorrect, in [0, 1].
        penalty: Reward of an incorrect repeated text, at most 0.
        min_count: Earlier uses that make a text repeated, at least 1.
        window: Recent texts that are remembered, at least 1.
    """

    top_k: int = 10
    precision_threshold: float = 0.7
    penalty: float = -0.1
    min_count: int = 2
    window: int = 10_000

    def __post_init__(self) -> None:
        """Refuses values that make the penalty inert or turn it into a bonus."""
        require_at_least(self, 1, "top_k", "min_count", "window")
        require_between(self, 0, 1, "precision_threshold")
        require(self.penalty <= 0.0, f"penalty must be at most 0, got {self.penalty}. Write it as a negative reward.")


class RepetitionPenalty:
    """Remembers recent texts and penalizes those that are frequent and incorrect.

    A batch is judged against the history before it, then joins it; the order within a batch changes neither
    the rewards nor the history. Texts are kept as digests, so that checkpoints stay small.

    Args:
        config: The paper's values by default.
    """

    def __init__(self, config: RepetitionConfig | None = None) -> None:
        self.config = config or RepetitionConfig()
        self._history: deque[str] = deque()
        self._counts: Counter[str] = Counter()

    def penalize(self, texts: Sequence[str], precisions: Sequence[float]) -> list[float]:
        """Returns the penalties of a batch against the history, which then remembers it.

        Args:
            texts: The batch's texts; case and spacing are ignored when they are compared.
            precisions: The precision of each, in [0, 1]; NaN (not judged) is never penalized.
        """
        digests = [_digest(text) for text in texts]
        frequent_from = self._frequent_from()
        wrong_below = self.config.precision_threshold - _TOLERANCE
        penalties = [
            self.config.penalty if self._counts[digest] >= frequent_from and precision < wrong_below else 0.0
            for digest, precision in zip(digests, precisions, strict=True)
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
        self._history.extend(sorted(digests))
        self._counts.update(digests)
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
        require("history" in state, f"Expected a state with 'history', got the keys {sorted(state)}.")
        self._history = deque(state["history"])
        self._counts = Counter(self._history)


def _digest(text: str) -> str:
    normal_form = " ".join(text.casefold().split())
    return hashlib.blake2b(normal_form.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
