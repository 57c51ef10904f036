"""The rollout archive of iVGR: for every query the best grounded rollout seen so far.

Source: iVGR, section 3.3, equation 4. Replacement is by a strictly higher R_box, so that equal rollouts do not swap
the reference under the textual stream.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from vlm_envs.errors import ConfigError

MIN_BOX_REWARD = 0.3
"""τ: a reference needs a box reward above it; iVGR, section 4.4."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reference:
    """A grounded rollout that textual rollouts are compared with.

    Attributes:
        text: The model's own text.
        box_reward: Its R_box, in [0, 1].
    """

    text: str
    box_reward: float


class Lookups(NamedTuple):
    """How often references were looked up.

    Attributes:
        num: In all.
        num_hits: Of them those that found a reference of an earlier step.
    """

    num: int = 0
    num_hits: int = 0

    @property
    def hit_rate(self) -> float:
        """Part that found a reference of an earlier step; NaN before the first.

        Source: iVGR, figure 4 (d): how often historical rollouts serve as references, 0 throughout the first epoch.
        """
        return self.num_hits / self.num if self.num else math.nan

    def since(self, earlier: Lookups) -> Lookups:
        """Returns those after some earlier ones."""
        return Lookups(self.num - earlier.num, self.num_hits - earlier.num_hits)


class RolloutArchive:
    """The best valid grounded rollout of each query; a part of the training state.

    Args:
        threshold: Box reward that a reference must exceed, in [0, 1).

    Attributes:
        lookups: How often references were looked up so far.

    Raises:
        ConfigError: The threshold is out of range.
    """

    def __init__(self, threshold: float = MIN_BOX_REWARD) -> None:
        if not 0.0 <= threshold < 1.0:
            raise ConfigError(f"threshold must be in [0, 1); got {threshold!r}.")
        self.threshold = threshold
        self._references: dict[str, Reference] = {}
        self.lookups = Lookups()

    def __len__(self) -> int:
        return len(self._references)

    @property
    def hit_rate(self) -> float:
        """Part of the lookups so far that found a reference of an earlier step; NaN before the first."""
        return self.lookups.hit_rate

    def offer(self, query_id: str, text: str, box_reward: float) -> bool:
        """Keeps a rollout of right format and answer if it is better grounded than what is there.

        Args:
            query_id: Names the query across epochs.
            text: The model's own text.
            box_reward: Its R_box; NaN is never kept.

        Returns:
            Whether the rollout is the query's reference now.
        """
        kept = self._references.get(query_id)
        if not box_reward > (self.threshold if kept is None else kept.box_reward):
            return False
        self._references[query_id] = Reference(text=text, box_reward=box_reward)
        return True

    def look_up(self, query_id: str, *, is_new: bool = False) -> Reference | None:
        """Returns a query's reference, None when there is none yet; counted in the hit rate.

        Args:
            query_id: The query.
            is_new: Whether the reference was archived in this very step, as `offer` said: then it is no hit.
        """
        found = self._references.get(query_id)
        is_hit = found is not None and not is_new
        self.lookups = Lookups(self.lookups.num + 1, self.lookups.num_hits + is_hit)
        return found

    def state_dict(self) -> dict[str, Any]:
        """Returns all there is to save, as values that JSON can hold."""
        return {
            "threshold": self.threshold,
            "references": {query_id: asdict(kept) for query_id, kept in self._references.items()},
            "num_lookups": self.lookups.num,
            "num_hits": self.lookups.num_hits,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Becomes what was saved.

        Args:
            state: From `state_dict`.

        Raises:
            ConfigError: It was saved under another threshold, or is no archive's state. Nothing is changed then.
        """
        if state.get("threshold") != self.threshold:
            raise ConfigError(
                f"This archive has threshold {self.threshold}; the saved one has {state.get('threshold')!r}. "
                "Use the saved threshold, or start with an empty archive."
            )
        try:
            references = {str(query_id): Reference(**kept) for query_id, kept in state["references"].items()}
            lookups = Lookups(int(state["num_lookups"]), int(state["num_hits"]))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ConfigError(f"The state is not an archive's: {error}. Load what `state_dict` gave.") from error
        self._references, self.lookups = references, lookups
