"""The repetition penalty: a small cost for a frequent text that is incorrect.

Source: VAGEN, appendix D.1.2: a penalty of 0.1 for a text that is among the most frequent of the history (a) and scores
below 0.7 (b), by which "the agent is blindly repeating an incorrect answer". Choices:

- Condition (b) uses precision, the share of stated facts that are true, instead of the paper's F1. F1 is also low for
  a correct but incomplete text, such as "The player is below the box, and the box is below the target." (F1 0.533 by
  the exact judge, precision 1), which the paper itself lists as good.
- The history is a window of recent texts, and ties at the k-th rank all count as frequent.
- A text counts as repeated only after two earlier uses; otherwise every text would be among the most frequent while
  the history is short.
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
"""Keeps a precision that equals 0.7 up to rounding from counting as below 0.7."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RepetitionConfig:
    """When repetition is penalized, and by how much.

    Attributes:
        top_k: Number of most frequent texts that count as frequent, at least 1.
        precision_threshold: Texts with a lower precision are incorrect, in [0, 1].
        penalty: Reward of an incorrect repeated text, at most 0.
        min_count: Earlier uses after which a text counts as repeated, at least 1.
        window: Number of recent texts to remember, at least 1.
    """

    top_k: int = 10
    precision_threshold: float = 0.7
    penalty: float = -0.1
    min_count: int = 2
    window: int = 10_000

    def __post_init__(self) -> None:
        """Raises `ConfigError` for values that disable the penalty or turn it into a bonus."""
        require_at_least(self, 1, "top_k", "min_count", "window")
        require_between(self, 0, 1, "precision_threshold")
        require(self.penalty <= 0.0, f"penalty must be at most 0, got {self.penalty}. Write it as a negative reward.")


class RepetitionPenalty:
    """Remembers recent texts and penalizes those that are frequent and incorrect.

    A batch is compared with the earlier history and then added to it; the order within a batch affects neither
    the rewards nor the history. Texts are stored as digests to keep checkpoints small.

    Args:
        config: The paper's values by default.
    """

    def __init__(self, config: RepetitionConfig | None = None) -> None:
        self.config = config or RepetitionConfig()
        self._history: deque[str] = deque()
        self._counts: Counter[str] = Counter()

    def penalize(self, texts: Sequence[str], precisions: Sequence[float]) -> list[float]:
        """Returns the penalties of a batch against the history, then adds the batch to it.

        Args:
            texts: The batch's texts; comparison ignores case and spacing.
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
        """Returns the number of earlier uses at which a text is among the top k."""
        top_counts = heapq.nlargest(self.config.top_k, self._counts.values())
        kth = top_counts[-1] if len(top_counts) == self.config.top_k else 0
        return max(kth, self.config.min_count)

    def _remember(self, digests: list[str]) -> None:
        # Sorted, so that the texts that leave the window first do not depend on the order within a batch.
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
        """Restores the history from `state_dict`.

        Raises:
            ConfigError: The state has no history.
        """
        require("history" in state, f"Expected a state with 'history', got the keys {sorted(state)}.")
        self._history = deque(state["history"])
        self._counts = Counter(self._history)


def _digest(text: str) -> str:
    normal_form = " ".join(text.casefold().split())
    return hashlib.blake2b(normal_form.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
