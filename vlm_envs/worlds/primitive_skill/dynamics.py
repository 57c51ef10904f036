"""PrimitiveSkill's dynamics: levels in, primitives out through the simulator, and a planner beside them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from vlm_envs.errors import ConfigError, LevelError
from vlm_envs.parts import Dynamics
from vlm_envs.validation import require_choice, require_positive
from vlm_envs.worlds.primitive_skill import generator, planner
from vlm_envs.worlds.primitive_skill.actions import Primitive, Skill
from vlm_envs.worlds.primitive_skill.engine import Engine, EngineHandle
from vlm_envs.worlds.primitive_skill.level_text import level_key, level_text, parse_level
from vlm_envs.worlds.primitive_skill.motion import UnreachableError, carry_out
from vlm_envs.worlds.primitive_skill.stages import STAGES, is_solved, reached_stage
from vlm_envs.worlds.primitive_skill.state import PrimitiveSkillState

GRIDS_MM = (1, 2, 5, 10, 20, 50)
"""Grids that fit where things may stand."""
_LARGEST_OF_LANES_MM = 10

_MOVED_M = 0.0005
"""What moved less did not move: the state stays as it was, so that nothing creeps."""


class PrimitiveSkillDynamics(Dynamics[PrimitiveSkillState, Primitive]):
    """The table of one task. Each primitive is simulated from the state's numbers, then everything comes to rest.

    Args:
        task: `"place"`, `"stack"`, `"drawer"` or `"align"`.
        engine: The claim on the simulator.
        grid_mm: Things stand at multiples of it when an episode begins: a divisor of 20 or 50, and of 10 for `"align"`,
            whose lanes are that far apart.
        num_cubes: How many cubes stand on the table, 1 to 3 in `"place"`; None for as many as the task has.

    Raises:
        ConfigError: If there is no such task, or no such grid or number of cubes in it.

    Source: VAGEN, Tables 12 and 13, for actions and budgets; ManiSkill 3.0.1 for the arm and its gains.
    """

    steps_are_cheap = False
    plans_are_shortest = False  # a lucky push may take the place of a pick and a place

    def __init__(self, *, task: str, engine: EngineHandle, grid_mm: int = 1, num_cubes: int | None = None) -> None:
        self.task = require_choice("task", task, STAGES)
        grids = [each for each in GRIDS_MM if task != "align" or each <= _LARGEST_OF_LANES_MM]
        if require_positive("grid_mm", grid_mm) not in grids:
            raise ConfigError(f"grid_mm of task {task!r} must be one of {', '.join(map(str, grids))}; got {grid_mm}.")
        numbers = generator.NUM_CUBES[task]
        if num_cubes is not None and (not isinstance(num_cubes, int) or num_cubes not in numbers):
            told = " or ".join(map(str, sorted(numbers)))
            raise ConfigError(f"num_cubes of task {task!r} must be {told}; got {num_cubes!r}.")
        self._grid_mm, self._num_cubes = grid_mm, num_cubes
        self._engine = engine

    def generate(self, rng: np.random.Generator, split: str) -> PrimitiveSkillState:
        """Returns a random table of a split; raises `GenerationError` if none was found."""
        return generator.generate(rng, split, self.task, grid_mm=self._grid_mm, num_cubes=self._num_cubes)

    def load(self, level: str) -> PrimitiveSkillState:
        """Returns the state that a JSON text describes.

        Args:
            level: As `dump` writes it.

        Raises:
            LevelError: If it cannot be read, is of another task, is solved already or cannot be solved.
        """
        state = parse_level(level)
        if state.task != self.task:
            raise LevelError(
                f"Expected a level of task={self.task!r}; got one of {state.task!r}. Make the env with that task."
            )
        if is_solved(state):
            raise LevelError("A level must have something left to do; all its goals are met.")
        if planner.plan(state) is None:
            raise LevelError(
                "A level must have a solution, but a cube, a target or the drawer that it is about is out of the arm's "
                "reach; move it nearer to the middle of the table."
            )
        return state

    def dump(self, state: PrimitiveSkillState) -> str:
        """Returns the state as one line of JSON; `load` reads it back."""
        return level_text(state)

    def level_key(self, state: PrimitiveSkillState) -> bytes:
        """Returns canonical bytes of the table and its goals, whatever the wording."""
        return level_key(state)

    def step(
        self, state: PrimitiveSkillState, action: Primitive, rng: np.random.Generator
    ) -> tuple[PrimitiveSkillState, bool]:
        """Carries out a primitive.

        Args:
            state: The table now.
            action: What to do. What cannot be done (outside the workspace, out of reach, nothing to place, a full
                hand) does nothing, and the state's `outcome` says why.
            rng: Not used; the simulation is deterministic.

        Returns:
            The table afterwards, and whether anything but the arm has moved.

        Raises:
            EngineUnavailableError: If the simulator cannot run here.
        """
        refusal = _refusal(state, action)
        if refusal:
            return replace(state, outcome=refusal), False
        with self._engine.use() as engine:
            # An expert foresees what it then does, and siblings of a group often do alike
            return engine.outcomes.get((state, action), lambda: _simulated(engine, state, action))

    def is_success(self, state: PrimitiveSkillState) -> bool:
        """Returns whether all goals are met."""
        return is_solved(state)

    def plan(self, state: PrimitiveSkillState) -> tuple[Primitive, ...] | None:
        """Returns the planner's primitives, or None if something needed is out of reach."""
        return planner.plan(state)

    def suboptimal_plan(self, state: PrimitiveSkillState) -> tuple[Primitive, ...] | None:
        """Returns the planner's primitives with cubes on the nearer targets, whichever they belong on."""
        return planner.suboptimal_plan(state)

    def close(self) -> None:
        """Lets go of the simulator."""
        self._engine.close()


def _simulated(engine: Engine, state: PrimitiveSkillState, action: Primitive) -> tuple[PrimitiveSkillState, bool]:
    """Returns the table after the arm has moved, and whether anything but the arm has."""
    engine.put(state)
    try:
        held = carry_out(engine, action, state.held)
    except UnreachableError:
        return replace(state, outcome=f"{action} is out of the arm's reach"), False
    snapshot = engine.take()
    cubes = tuple(
        replace(cube, position=position, rotation=rotation)
        for cube, (position, rotation) in zip(state.cubes, snapshot.cubes, strict=True)
    )
    drawer = None if state.drawer is None else replace(state.drawer, open_m=snapshot.open_m)
    after = replace(state, cubes=cubes, drawer=drawer, held=held, qpos=snapshot.qpos, outcome="")
    if not _differs(state, after):
        return replace(state, outcome=_MISSED[action.skill].format(action)), False
    return replace(after, highest_stage=max(state.highest_stage, reached_stage(after))), True


_MISSED = {Skill.PICK: "{} closed on nothing", Skill.PLACE: "{} changed nothing", Skill.PUSH: "{} touched nothing"}


def _refusal(state: PrimitiveSkillState, action: Primitive) -> str:
    """Returns why a primitive is not tried, or an empty string."""
    if not action.is_within(state.task):
        return f"{action} is outside the workspace limits"
    if action.skill is Skill.PLACE and state.held is None:
        return f"{action} found nothing in the gripper"
    if action.skill is not Skill.PLACE and state.held is not None:
        return f"{action} needs an empty gripper"
    return ""


def _differs(before: PrimitiveSkillState, after: PrimitiveSkillState) -> bool:
    """Returns whether a cube or the drawer has moved, or the gripper has gained or lost something."""
    if before.held != after.held:
        return True
    if before.drawer is not None and after.drawer is not None:
        slid_m = abs(before.drawer.open_m - after.drawer.open_m)
    else:
        slid_m = 0.0
    return slid_m > _MOVED_M or any(
        math.dist(old.position, new.position) > _MOVED_M for old, new in zip(before.cubes, after.cubes, strict=True)
    )
