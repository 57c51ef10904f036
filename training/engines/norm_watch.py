"""Whether gradients explode: far larger than they used to be, step after step."""

from __future__ import annotations

import statistics
import sys
from collections import deque
from typing import Any

from training.errors import ExplodingGradientError

FACTOR = 100.0
"""How many times their median gradients are as large when they explode."""
_WINDOW, _MIN_NORMS, _TOLD_AT = 100, 10, 5
_REMEDY = "Lower the learning rate or lengthen its warm-up, raise --ppo.kl-coef, or look for rewards of another size."


class NormWatch:
    """Compares each gradient's norm with the median of those before, exploded ones and zeros left out.

    A single step does no harm, for gradients are clipped; many in a row are noise at the full learning rate. The fifth
    is told of. The last of `max_steps` ends the run.

    Args:
        what: Whose gradients they are.
        max_steps: Steps in a row; None never ends a run.
    """

    def __init__(self, what: str, max_steps: int | None) -> None:
        self._what, self._max_steps = what, max_steps
        self._norms: deque[float] = deque(maxlen=_WINDOW)
        self.num_in_a_row = 0

    def see(self, norm: float) -> None:
        """Takes note of a gradient that is about to be stepped on.

        Raises:
            ExplodingGradientError: At the last of `max_steps` in a row.
        """
        median = statistics.median(self._norms) if len(self._norms) >= _MIN_NORMS else None
        if median is None or norm <= FACTOR * median:
            self.num_in_a_row = 0
            if norm > 0:
                self._norms.append(norm)
            return
        self.num_in_a_row += 1
        told = (
            f"Gradients of the {self._what} were more than {FACTOR:g} times as large as before (norm {norm:.3g}, "
            f"median {median:.3g}) in {self.num_in_a_row} steps in a row."
        )
        if self._max_steps is not None and self.num_in_a_row >= self._max_steps:
            raise ExplodingGradientError(f"{told} {_REMEDY}")
        if self.num_in_a_row == _TOLD_AT:
            print(f"{told} {_REMEDY} --ppo.max-exploding-steps N ends a run for it.", file=sys.stderr)

    def state_dict(self) -> dict[str, Any]:
        """Returns what later steps are compared with."""
        return {"norms": list(self._norms), "num_in_a_row": self.num_in_a_row}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from what `state_dict` returned."""
        self._norms = deque(state["norms"], maxlen=_WINDOW)
        self.num_in_a_row = state["num_in_a_row"]
