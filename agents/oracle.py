"""Agents without a model: the oracle, which is also the expert of a cold start, and the random agent."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from agents.agent import Response
from vlm_envs.errors import SolverLimitError
from vlm_envs.parts import Dynamics, Task
from vlm_envs.trajectory import Observation
from vlm_envs.validation import require, require_finite
from vlm_envs.vector.vector_world import VectorWorld
from vlm_envs.world import World

THOUGHTS = ("observation", "reasoning", "prediction", "think", "rethink")
"""Sections that never contain actions, whatever the strategy."""


class _WorldReader(ABC):
    """An agent that reads the worlds themselves, not their observations.

    Args:
        seed: Seed of its random choices.
    """

    policy_version = -1
    _worlds: VectorWorld | None = None

    def __init__(self, *, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)

    @abstractmethod
    def write(self, world: World[Any, Any]) -> str:
        """Returns a complete response for a world's current state."""

    def start(self, worlds: VectorWorld) -> None:
        """Stores the worlds."""
        self._worlds = worlds

    def state_dict(self) -> dict[str, Any]:
        """Returns the state of its random generator."""
        return {"rng": self._rng.bit_generator.state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the state of its random generator."""
        self._rng.bit_generator.state = state["rng"]

    def respond(self, rows: Sequence[int], observations: Sequence[Observation]) -> list[Response]:
        """Returns a response for each row, written in the world's process: engines are slow to copy or duplicate."""
        assert self._worlds is not None, "start() comes before respond()"
        texts = self._worlds.apply({row: self._sent_out().write for row in rows})
        return [Response(text=texts[row]) for row in rows]

    def _sent_out(self) -> Self:
        """Returns a copy with its own seed, so that its choices do not depend on its worker."""
        twin = copy.copy(self)
        twin._worlds = None
        twin._rng = np.random.default_rng(self._rng.integers(2**63))
        return twin


class OracleAgent(_WorldReader):
    """Plays optimal actions and writes true observations and predictions in the world's format.

    Args:
        mistake_rate: Probability of replacing each action with a random one, from 0 to 1. The text stays true: it
            predicts the result of those actions.
        suboptimal_rate: Probability of planning a turn without regard for what makes the world hard (holes, inner
            walls), from 0 to 1. The text stays true.
        tells_plan: Whether it states the goal of its whole plan, also of a suboptimal one, before its reasons for a
            turn, in worlds whose task has an `intention`.
        seed: Seed of both rates.

    Raises:
        ConfigError: If a rate is not within 0 and 1.
    """

    def __init__(
        self, *, mistake_rate: float = 0.0, suboptimal_rate: float = 0.0, tells_plan: bool = False, seed: int = 0
    ) -> None:
        for name, rate in (("mistake_rate", mistake_rate), ("suboptimal_rate", suboptimal_rate)):
            require(0.0 <= require_finite(name, rate) <= 1.0, f"{name} must be within 0 and 1; got {rate}.")
        super().__init__(seed=seed)
        self.mistake_rate, self.suboptimal_rate, self.tells_plan = mistake_rate, suboptimal_rate, tells_plan

    def write(self, world: World[Any, Any]) -> str:
        """Returns a complete response for a world's current state.

        Returns:
            The response in the world's format. If there is no plan, or the solver reaches its limit, the action is a
            random valid one.
        """
        plan = self._planned(world)
        actions = self._actions(world, plan)
        future, intention = _Future(world, actions), self._intention(world, plan, actions)
        sections = dict(world.task.expert_sections(world.state, actions))
        for name in world.turn_format.sections:
            if name in _KNOWN_PARTS and name not in sections:
                parts = (_truth(part, world, actions, future, intention) for part in _KNOWN_PARTS[name])
                sections[name] = "\n".join(parts)
        return world.write_response(actions, sections)

    def _planned(self, world: World[Any, Any]) -> list[Any]:
        """Returns the actions that solve the level, as far as this turn's plan goes."""
        is_suboptimal = self.suboptimal_rate > 0.0 and self._rng.random() < self.suboptimal_rate
        return list(_plan(world, is_suboptimal=is_suboptimal))

    def _intention(self, world: World[Any, Any], plan: list[Any], actions: list[Any]) -> str:
        """Returns the stated goal of a plan; empty if the actions deviate from the plan."""
        if not self.tells_plan or not plan or actions != plan[: len(actions)]:
            return ""
        return world.task.intention(world.state, plan)

    def _actions(self, world: World[Any, Any], plan: list[Any]) -> list[Any]:
        """Returns this turn's actions: the head of a plan, with random mistakes."""
        plan = plan[: world.max_actions_per_turn] or [world.task.sample_action(world.state, self._rng)]
        if self.mistake_rate > 0.0:
            wrong = self._rng.random(len(plan)) < self.mistake_rate
            plan = [
                world.task.sample_action(world.state, self._rng) if is_wrong else action
                for action, is_wrong in zip(plan, wrong, strict=True)
            ]
        return plan


def has_planner(world: World[Any, Any]) -> bool:
    """Returns whether a world has a planner; without one, an oracle's actions are random."""
    return type(world.dynamics).plan is not Dynamics.plan


def has_suboptimal_planner(world: World[Any, Any]) -> bool:
    """Returns whether a world has a plan that ignores what makes it hard; without one, suboptimal means optimal."""
    return type(world.dynamics).suboptimal_plan is not Dynamics.suboptimal_plan


def has_intention(world: World[Any, Any]) -> bool:
    """Returns whether a world can state the goal of an expert's whole plan."""
    return type(world.task).intention is not Task.intention


class _Future:
    """The states that a turn's actions lead to, simulated only as far as requested, because engines are slow."""

    def __init__(self, world: World[Any, Any], actions: Sequence[Any]) -> None:
        self._world, self._actions = world, actions
        self._states = [world.state]
        self._rng: np.random.Generator | None = None

    def after(self, num_actions: int) -> Any:
        """Returns the state after the first `num_actions` actions."""
        if self._rng is None:
            # A copy of the world's own generator, so that the prediction is true on slippery ice, too
            self._rng = copy.deepcopy(self._world.np_random)
        for action in self._actions[len(self._states) - 1 : num_actions]:
            state = self._states[-1]
            if not self._world.dynamics.is_over(state):
                state, _ = self._world.dynamics.step(state, action, self._rng)
            self._states.append(state)
        return self._states[num_actions]


_KNOWN_PARTS = {
    "observation": ("observation",),
    "reasoning": ("reasoning",),
    "prediction": ("prediction",),
    "think": ("observation", "reasoning", "prediction"),
}
"""Parts that an expert writes into each section."""


def _truth(part: str, world: World[Any, Any], actions: Sequence[Any], future: _Future, intention: str) -> str:
    """Returns the true text for one part of a thought; reasons start with the intention, if there is one."""
    if part == "reasoning":
        reasons = world.task.reasoning(world.state, actions, future.after)
        return f"{intention}; {reasons}" if intention else reasons
    state = world.state if part == "observation" else future.after(len(actions))
    return world.view.describe(state, world.representation)


def _plan(world: World[Any, Any], *, is_suboptimal: bool) -> Sequence[Any]:
    """Returns an optimal or a suboptimal plan; empty if there is none or the solver gives up."""
    planner = world.dynamics.suboptimal_plan if is_suboptimal else world.dynamics.plan
    try:
        return planner(world.state) or ()
    except SolverLimitError:
        return ()


class RandomAgent(_WorldReader):
    """Answers with random valid actions in the right format and no statements about its observations.

    Args:
        seed: Seed of its random choices.
    """

    def write(self, world: World[Any, Any]) -> str:
        """Returns a random valid response in a world's format."""
        task = world.task
        num_actions = world.max_actions_per_turn if task.grammar.separator else 1
        actions = [task.sample_action(world.state, self._rng) for _ in range(num_actions)]
        return world.write_response(actions, dict.fromkeys(THOUGHTS, "unknown"))
