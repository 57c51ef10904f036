"""Which of two replies is better, asked in both orders, since judge models tend to favour a place."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from agents.api.client import ChatClient
from agents.api.failures import Outage
from agents.api.messages import with_images
from judges.llm.templates import template
from judges.llm.verdict import read_choice

Winner = Literal["first", "second", "tie"]

_SEEN_FIRST: dict[str, Winner] = {"A": "first", "B": "second", "TIE": "tie"}
_SEEN_SECOND: dict[str, Winner] = {"A": "second", "B": "first", "TIE": "tie"}


@dataclass(frozen=True, kw_only=True, slots=True)
class PairVerdict:
    """The outcome of one comparison.

    Attributes:
        winner: `tie` where the two orders disagree; None where an order had no verdict.
        is_consistent: whether both orders named the same winner; None where one had no verdict.
        reason: one line for logs.
    """

    winner: Winner | None
    is_consistent: bool | None
    reason: str

    @property
    def available(self) -> bool:
        """False in an outage."""
        return self.winner is not None


class PairwiseJudge:
    """Compares pairs of replies and keeps count of how often the order decided."""

    def __init__(self, client: ChatClient) -> None:
        """Choose the judge model."""
        self._client = client
        self._template = template("pairwise")
        self._lock = threading.Lock()
        self._num_compared = self._num_consistent = 0

    @property
    def position_consistency(self) -> float | None:
        """Share of the comparisons in which both orders agreed, in [0, 1]; None before the first."""
        with self._lock:
            return self._num_consistent / self._num_compared if self._num_compared else None

    def compare(self, task: str, first: str, second: str, images: Sequence[npt.NDArray[np.uint8]] = ()) -> PairVerdict:
        """Compare two replies.

        Args:
            task: what was asked for, and what is known to be true.
            first: a reply.
            second: another.
            images: what the task is about, each uint8 [height, width, 3].

        Returns:
            The verdict, or an outage.
        """
        orders = [(first, second, _SEEN_FIRST), (second, first, _SEEN_SECOND)]
        winners = self._client.map(lambda order: self._ask(task, *order, images), orders)
        outages = [winner for winner in winners if isinstance(winner, Outage)]
        if outages:
            return PairVerdict(winner=None, is_consistent=None, reason=outages[0].reason)
        one, other = (winner for winner in winners if not isinstance(winner, Outage))
        with self._lock:
            self._num_compared += 1
            self._num_consistent += one == other
        reason = f"{one} in both orders" if one == other else f"{one} in one order, {other} in the other"
        return PairVerdict(winner=one if one == other else "tie", is_consistent=one == other, reason=reason)

    def _ask(
        self,
        task: str,
        a: str,
        b: str,
        winner_of: dict[str, Winner],
        images: Sequence[npt.NDArray[np.uint8]],
    ) -> Winner | Outage:
        messages = with_images(self._template.fill(task=task, a=a, b=b), images)
        choice = self._client.ask(messages, lambda reply: read_choice(reply, ("A", "B", "TIE")))
        return choice if isinstance(choice, Outage) else winner_of[choice]
