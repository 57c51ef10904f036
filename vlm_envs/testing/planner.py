"""The planner of a world under test: plans each state once and measures how long that takes."""

from __future__ import annotations

import time
from collections.abc import Hashable
from typing import Any

from vlm_envs.errors import SolverLimitError
from vlm_envs.world import World

SLOW_S = 0.1
"""A planner that takes longer per call is reported."""


class Planner:
    """Plans of a world's states.

    Attributes:
        num_calls: How often the world's own planner was called.
        total_s: Seconds this took.
    """

    def __init__(self) -> None:
        self.num_calls, self.total_s = 0, 0.0
        self._plans: dict[Hashable, tuple[Any, ...] | None] = {}

    def plan(self, world: World[Any, Any]) -> tuple[Any, ...] | None:
        """Returns an optimal plan for the current state; None without a planner, or where it stops at its limit."""
        key = _key(world)
        if key not in self._plans:
            started = time.perf_counter()
            try:
                self._plans[key] = world.dynamics.plan(world.state)
            except SolverLimitError:
                self._plans[key] = None
            self.num_calls += 1
            self.total_s += time.perf_counter() - started
        return self._plans[key]

    @property
    def note(self) -> str:
        """A sentence on a slow planner; empty for one that is fast enough."""
        per_call_s = self.total_s / max(1, self.num_calls)
        if per_call_s < SLOW_S:
            return ""
        return (
            f"the planner takes {per_call_s:.1f} s per call, which each new state costs on boards, in reports, and in "
            "recordings. Search less, or raise SolverLimitError beyond a number of nodes"
        )


def _key(world: World[Any, Any]) -> Hashable:
    """Returns the state itself if it can be hashed, else its level text."""
    state = world.state
    try:
        hash(state)
    except TypeError:
        return world.dynamics.dump(state)
    return state  # type: ignore[no-any-return]
