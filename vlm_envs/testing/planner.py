"""The planner of a world under test: plans each state once and measures how long that takes."""

from __future__ import annotations

import math
import time
from collections.abc import Hashable
from typing import Any

from vlm_envs.errors import SolverLimitError
from vlm_envs.parts import Dynamics
from vlm_envs.world import World

SLOW_S = 0.1
"""A planner that takes longer per call is reported."""

_AT_LIMIT: Any = object()


class Planner:
    """Plans of a world's states.

    Attributes:
        num_calls: How often the world's own planner was called, for a plan or its length.
        total_s: Seconds this took.
    """

    def __init__(self) -> None:
        self.num_calls, self.total_s = 0, 0.0
        self._answers: dict[tuple[str, Hashable], Any] = {}

    def plan(self, world: World[Any, Any]) -> tuple[Any, ...] | None:
        """Returns an optimal plan for the current state; None without a planner, or where it stops at its limit."""
        plan: tuple[Any, ...] | None = self._asked("plan", world.dynamics, world.state)
        return None if plan is _AT_LIMIT else plan

    def cost_to_go(self, dynamics: Dynamics[Any, Any], state: Any) -> float | None:
        """Returns how many actions an optimal plan has: 0 where the task is solved, infinity where there is no plan.

        None where the planner stops at its limit.
        """
        if dynamics.is_success(state):
            return 0
        is_length = type(dynamics).cost_to_go is Dynamics.cost_to_go
        answer = self._asked("plan" if is_length else "cost_to_go", dynamics, state)
        if answer is _AT_LIMIT:
            return None
        return math.inf if answer is None else len(answer) if is_length else answer

    def _asked(self, method: str, dynamics: Dynamics[Any, Any], state: Any) -> Any:
        """Returns what a method of the dynamics returns for a state; it is called once."""
        key = method, _key(dynamics, state)
        if key not in self._answers:
            started = time.perf_counter()
            try:
                self._answers[key] = getattr(dynamics, method)(state)
            except SolverLimitError:
                self._answers[key] = _AT_LIMIT
            self.num_calls += 1
            self.total_s += time.perf_counter() - started
        return self._answers[key]

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


def has_planner(world: World[Any, Any]) -> bool:
    """Returns whether a world's dynamics have a planner of their own."""
    return type(world.dynamics).plan is not Dynamics.plan


def _key(dynamics: Dynamics[Any, Any], state: Any) -> Hashable:
    """Returns the state itself if it can be hashed, else its level text."""
    try:
        hash(state)
    except TypeError:
        return dynamics.dump(state)
    return state  # type: ignore[no-any-return]
