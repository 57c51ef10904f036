"""PrimitiveSkill: a robot arm that picks, places, and pushes things on a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vlm_envs.errors import ConfigError, LevelError
from vlm_envs.parts import Dynamics, Task, View
from vlm_envs.responses.formats import WITHOUT_SYMBOLS
from vlm_envs.spaces import MAX_RESOLUTION
from vlm_envs.validation import require_choice, require_flag, require_positive
from vlm_envs.world import World
from vlm_envs.worlds.primitive_skill import skill_levels, skill_planner, skill_state
from vlm_envs.worlds.primitive_skill.sapien_engine import VIEWPOINTS, Engine, EngineHandle
from vlm_envs.worlds.primitive_skill.skill_levels import level_key, level_text, parse_level
from vlm_envs.worlds.primitive_skill.skill_motion import UnreachableError, carry_out
from vlm_envs.worlds.primitive_skill.skill_planner import GRAMMAR, Primitive, Skill
from vlm_envs.worlds.primitive_skill.skill_state import (
    NUM_STAGES,
    WORKSPACES_MM,
    Millimetres,
    PrimitiveSkillState,
    is_solved,
    num_stages,
    reached_stage,
)

GRIDS_MM = (1, 2, 5, 10, 20, 50)
"""Supported grids, which fit into the areas where things may be placed."""
_LARGEST_OF_LANES_MM = 10

_MOVED_M = 0.0005
"""Smaller movements are ignored: the state stays unchanged, so that nothing drifts."""


class PrimitiveSkillDynamics(Dynamics[PrimitiveSkillState, Primitive]):
    """The table of one task. Each primitive is simulated from the state's numbers until everything is at rest.

    Args:
        task: `"place"`, `"stack"`, `"drawer"` or `"align"`.
        engine: The handle of the simulator.
        grid_mm: Initial positions are multiples of it: a divisor of 20 or 50, or of 10 for `"align"`, whose
            lanes are that far apart.
        num_cubes: Number of cubes on the table, 1 to 3 in `"place"`; None for the task's default.

    Raises:
        ConfigError: If the task does not exist, or does not support the grid or number of cubes.

    Source: VAGEN, Tables 12 and 13, for actions and budgets; ManiSkill 3.0.1 for the arm and its gains.
    """

    steps_are_cheap = False
    plans_are_shortest = False  # a lucky push may replace a pick and a place

    def __init__(self, *, task: str, engine: EngineHandle, grid_mm: int = 1, num_cubes: int | None = None) -> None:
        self.task = require_choice("task", task, NUM_STAGES)
        grids = [grid_mm for grid_mm in GRIDS_MM if task != "align" or grid_mm <= _LARGEST_OF_LANES_MM]
        if require_positive("grid_mm", grid_mm) not in grids:
            raise ConfigError(f"grid_mm of task {task!r} must be one of {', '.join(map(str, grids))}; got {grid_mm}.")
        numbers = skill_levels.NUM_CUBES[task]
        if num_cubes is not None and (not isinstance(num_cubes, int) or num_cubes not in numbers):
            allowed = " or ".join(map(str, sorted(numbers)))
            raise ConfigError(f"num_cubes of task {task!r} must be {allowed}; got {num_cubes!r}.")
        self._grid_mm, self._num_cubes = grid_mm, num_cubes
        self._engine = engine

    def generate(self, rng: np.random.Generator, split: str) -> PrimitiveSkillState:
        """Returns a random table of a split; raises `GenerationError` if none was found."""
        return skill_levels.generate(rng, split, self.task, grid_mm=self._grid_mm, num_cubes=self._num_cubes)

    def load(self, level: str) -> PrimitiveSkillState:
        """Returns the state in a JSON text.

        Args:
            level: A text in the format of `dump`.

        Raises:
            LevelError: If it cannot be parsed, belongs to another task, is already solved, or cannot be
                solved.
        """
        state = parse_level(level)
        if state.task != self.task:
            raise LevelError(
                f"Expected a level of task={self.task!r}; got one of {state.task!r}. Make the environment with that "
                "task."
            )
        if is_solved(state):
            raise LevelError("A level must not be solved; all goals of this one are already met.")
        if skill_planner.plan(state) is None:
            raise LevelError(
                "A level must have a solution, but a cube, a target, or the drawer is out of the arm's reach; move "
                "it nearer "
                "to the middle of the table."
            )
        return state

    def dump(self, state: PrimitiveSkillState) -> str:
        """Returns the state as one line of JSON; `load` parses it."""
        return level_text(state)

    def level_key(self, state: PrimitiveSkillState) -> bytes:
        """Returns canonical bytes of the table and its goals, regardless of wording."""
        return level_key(state)

    def step(
        self, state: PrimitiveSkillState, action: Primitive, rng: np.random.Generator
    ) -> tuple[PrimitiveSkillState, bool]:
        """Executes a primitive.

        Args:
            state: The current table.
            action: The primitive. An impossible one (outside the workspace, out of reach, nothing to place,
                gripper full) does nothing, and the state's `outcome` explains why.
            rng: Unused, because the simulation is deterministic.

        Returns:
            The table afterwards, and whether anything but the arm has moved.

        Raises:
            EngineUnavailableError: If the simulator cannot run here.
        """
        refusal = _refusal(state, action)
        if refusal:
            return replace(state, outcome=refusal), False
        with self._engine.use() as engine:
            # An expert simulates its actions before it takes them, and episodes of a group often take the
            # same ones
            return engine.outcomes.get((state, action), lambda: _simulated(engine, state, action))

    def is_success(self, state: PrimitiveSkillState) -> bool:
        """Returns whether all goals are met."""
        return is_solved(state)

    def plan(self, state: PrimitiveSkillState) -> tuple[Primitive, ...] | None:
        """Returns the planner's primitives, or None if something needed is out of reach."""
        return skill_planner.plan(state)

    def suboptimal_plan(self, state: PrimitiveSkillState) -> tuple[Primitive, ...] | None:
        """Returns the planner's primitives with cubes on their nearest targets, regardless of the goals."""
        return skill_planner.suboptimal_plan(state)

    def close(self) -> None:
        """Releases the simulator."""
        self._engine.close()


def _simulated(engine: Engine, state: PrimitiveSkillState, action: Primitive) -> tuple[PrimitiveSkillState, bool]:
    """Returns the table after a motion of the arm, and whether anything but the arm has moved."""
    engine.put(state)
    try:
        held = carry_out(engine, action, state.held)
    except UnreachableError:
        return replace(state, outcome=f"{action} is out of the arm's reach"), False
    after = replace(engine.take(), held=held, outcome="")
    if not _differs(state, after):
        return replace(state, outcome=_MISSED[action.skill].format(action)), False
    return replace(after, highest_stage=max(state.highest_stage, reached_stage(after))), True


_MISSED = {Skill.PICK: "{} closed on nothing", Skill.PLACE: "{} changed nothing", Skill.PUSH: "{} touched nothing"}


def _refusal(state: PrimitiveSkillState, action: Primitive) -> str:
    """Returns why a primitive is not executed, or an empty string."""
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


class PrimitiveSkillView(View[PrimitiveSkillState]):
    """Images and texts of tables.

    Args:
        engine: The handle of the simulator.
        resolution: Side of the images in pixels, 32 to 2048.
        camera: `"front"` or `"above"`.

    Raises:
        ConfigError: If the resolution is out of range, or the camera does not exist.
    """

    def __init__(self, *, engine: EngineHandle, resolution: int = 256, camera: str = "front") -> None:
        self.resolution = require_positive("resolution", resolution, minimum=32, maximum=MAX_RESOLUTION)
        self.camera = require_choice("camera", camera, VIEWPOINTS)
        self._engine = engine

    def image(self, state: PrimitiveSkillState) -> NDArray[np.uint8]:
        """Returns the camera's image, uint8[resolution, resolution, 3].

        Raises:
            EngineUnavailableError: If the renderer cannot run here.
        """
        with self._engine.use() as engine:
            return engine.picture(state, self.resolution, self.camera)

    def structured(self, state: PrimitiveSkillState) -> skill_state.StateDict:
        """Returns the table as plain data."""
        return skill_state.structured(state)

    def describe(self, state: PrimitiveSkillState, representation: str) -> str:
        """Returns the table in words: `"natural_language"` or `"structured"`."""
        return skill_state.describe(state, representation)

    def close(self) -> None:
        """Releases the renderer."""
        self._engine.close()


STEP_PENALTY = -0.1
SUCCESS_REWARD = 10.0
STAGE_REWARD = 2.0

NEAR_MM = 30
"""Maximum distance at which a point refers to a thing's center."""

_ABOUT_THINGS = 0.8
"""Fraction of random primitives that use the position of a thing."""
_HELP: Mapping[str, str] = {
    "natural_language": "Describe states by where things are, such as: the red cube is at (62, -55, 20). "
    "the gripper is empty.",
    "structured": "Write states as {red_cube_position: (62, -55, 20), held_cube: none}",
}


class PrimitiveSkillTask(Task[PrimitiveSkillState, Primitive]):
    """Change the table as instructed. Rewards: VAGEN Table 19.

    Args:
        task: `"place"`, `"stack"`, `"drawer"` or `"align"`.
        show_positions: Whether every observation lists the positions of things, without names.
    """

    name = "PrimitiveSkill"
    goal = "Command a robot arm so that the table becomes what the instruction asks for."
    grammar = GRAMMAR
    representations = WITHOUT_SYMBOLS
    representation_help = _HELP

    def __init__(self, *, task: str, show_positions: bool = True) -> None:
        self.task, self.show_positions = task, require_flag("show_positions", show_positions)
        matching = ("Which position belongs to which thing is for you to see in the picture.",)
        self.rules = (
            "pick closes the gripper at the centre of a thing and lifts it; place lowers what is held until it stands "
            "on something, so a high z does no harm; push moves a thing in a straight line from one centre to another.",
            "Coordinates are whole millimetres. You look towards -x: -y is left, +y is right, +z is up, and a larger "
            "x is nearer to you. Cubes have sides of 40 mm, so one on the table has its centre at z 20.",
            *(matching if show_positions else ()),
        )

    def write_action(self, action: Primitive) -> str:
        """Returns a primitive in the grammar's syntax."""
        return str(action)

    def instruction(self, state: PrimitiveSkillState) -> str:
        """Returns the instruction of this level, and the workspace limits."""
        return skill_state.instruction(state)

    def hint(self, state: PrimitiveSkillState) -> str:
        """Returns the unnamed positions, unless they are hidden, and why the last primitive had no effect, if so."""
        failed = f"Reason: {state.outcome}." if state.outcome else ""
        told = skill_state.hint(state) if self.show_positions else ""
        return "\n".join(filter(None, (failed, told)))

    def reward_terms(
        self, state: PrimitiveSkillState, next_state: PrimitiveSkillState, *, success: bool
    ) -> dict[str, float]:
        """Returns the success reward at the end, else the step penalty and `(stage + 1) * 2` for a new highest stage.

        Source: VAGEN, Table 19. The action that solves the task earns only the success reward.
        """
        if success:
            return {"success": SUCCESS_REWARD}
        terms = {"step": STEP_PENALTY}
        if next_state.highest_stage > state.highest_stage:
            terms["stage"] = _stage_reward(next_state.highest_stage)
        return terms

    def noop_terms(self) -> dict[str, float]:
        """Returns one step penalty, so that doing nothing is never free."""
        return {"step": STEP_PENALTY}

    def best_return(self, state: PrimitiveSkillState, num_actions: int) -> float:
        """Returns the return of a plan with `num_actions` that reaches all remaining stages one by one."""
        stages = sum(_stage_reward(stage) for stage in range(state.highest_stage + 1, num_stages(state)))
        return SUCCESS_REWARD + STEP_PENALTY * (num_actions - 1) + stages

    def sample_action(self, state: PrimitiveSkillState, rng: np.random.Generator) -> Primitive:
        """Returns a random primitive within the workspace, usually at the position of a thing."""
        skill = tuple(Skill)[rng.integers(len(Skill))]
        return Primitive(skill, self._point(state, rng), self._point(state, rng) if skill is Skill.PUSH else None)

    def _point(self, state: PrimitiveSkillState, rng: np.random.Generator) -> Millimetres:
        low, high = np.transpose(WORKSPACES_MM[self.task])
        places = list(skill_state.positions(state).values())
        point = rng.integers(low, high + 1)
        if rng.random() < _ABOUT_THINGS:
            point = np.clip(places[rng.integers(len(places))], low, high)
        x, y, z = point.tolist()
        return x, y, z

    def reasoning(
        self, state: PrimitiveSkillState, actions: Sequence[Primitive], foresee: Callable[[int], PrimitiveSkillState]
    ) -> str:
        """Returns the purpose of each primitive, without simulating it."""
        held = None if state.held is None else state.cubes[state.held].name
        reasons = []
        for action in actions:
            if action.skill is Skill.PLACE:
                reason = f"put the {held or 'empty gripper'} at the {_nearest(state, action.point, without=held)}"
                held = None
            else:
                thing = _movable_at(state, action.point)
                verb = "take" if action.skill is Skill.PICK else "push"
                reason = f"{verb} the {thing}" if thing else "nothing is there"
                held = thing if action.skill is Skill.PICK else held
            reasons.append(f"{action}: {reason}")
        return "; ".join(reasons)


def _stage_reward(stage: int) -> float:
    return STAGE_REWARD * (stage + 1)


def _nearest(state: PrimitiveSkillState, point: Millimetres, *, without: str | None) -> str:
    """Returns the name of the thing nearest to a point, seen from above, except the held one."""
    places = {name: position for name, position in skill_state.positions(state).items() if name != without}
    return min(places, key=lambda name: math.dist(places[name][:2], point[:2]))


def _movable_at(state: PrimitiveSkillState, point: Millimetres) -> str | None:
    """Returns the name of the movable thing at a point, or None."""
    places = skill_state.positions(state)
    near = {name: math.dist(position, point) for name, position in places.items() if name.endswith(("cube", "handle"))}
    name = min(near, key=lambda thing: near[thing])
    return name if near[name] < NEAR_MM else None


class PrimitiveSkillWorld(World[PrimitiveSkillState, Primitive]):
    """PrimitiveSkill: command a robot arm; `task` selects one of four tasks, `place` by default.

    ## Description
    A Panda arm stands at the far side of a table with colored cubes of 40 mm. There are four tasks:

    * `place`: put two named cubes on the left and right target, two discs on the table; or a single cube on
      one of them;
    * `stack`: put one cube on another, and the third on a target;
    * `drawer`: put a cube into the drawer of a cabinet and leave it shut; the arm has to open it first;
    * `align`: give all cubes the same x coordinate, within 10 mm.

    Motion is simulated by PhysX through SAPIEN 3, with the Panda model, gains, and control rate of ManiSkill
    3, on the CPU; images are rendered by a software Vulkan driver. Both are deterministic, and every action
    starts from the numbers in the state alone. Colors, order of positions, layout, and wording are drawn at
    random for every level. ManiSkill itself is not imported, because it would load torch into every worker
    process; tests verify that its own `PickCube-v1` moves arm and cube identically for the same joint
    targets.

    ## Action Space
    `FreeText`: the model's whole response in the strategy's format. The answer contains `pick(x,y,z)`,
        `place(x,y,z)` and `push(x1,y1,z1,x2,y2,z2)` in integer millimeters, separated by `|`; those beyond
        `max_actions_per_turn` are dropped. An impossible primitive (a point outside the workspace limits or
        out of reach; nothing to place; a full gripper) has no effect, and the next observation explains why.
        The limits are the paper's: x -100 to 150, y -200 to 200, z 10 to 200 in mm, and in `drawer` x -500 to
        -100, y -600 to 200, z 10 to 650, with another origin: the same scene and arm, with x smaller by 250.

    ## Observation Space
    `Dict(text=FreeText, image=Box(uint8[resolution, resolution, 3]))`; without `image` in text mode. Each
    text lists the positions of the things without their names, unless `show_positions` is False.

    ## Rewards
    +10 for the action that solves the task. Any other action costs 0.1, and earns `(stage + 1) * 2` when it
    reaches a new highest stage. The stages, from 0, are: first cube held, first cube placed, second cube held
    (`place`, `stack`); drawer open, cube held, cube inside (`drawer`); one aligned, two aligned (`align`). A
    turn without actions costs 0.1; +0.5 per turn for a response in the format (VAGEN Table 19; its Section
    2.3 has +1 for each subgoal). The trainer adds reasoning rewards.

    ## Starting State
    A random table of the split with the arm drawn back, the drawer shut, and no goal met.

    ## Episode End
    Terminated when the task is solved. Truncated after `max_turns` turns.

    ## Arguments
    `task="place"`; `resolution=256`, side of the image, 32 to 2048; `camera="front"`, or `"above"`, which
    looks straight down on 0.46 m of the table, without the arm; `grid_mm=1`: initial positions are multiples
    of it (1, 2, 5, 10, or, except in `align`, 20 or 50); `num_cubes=None`, the task's default of 3 or, in
    `drawer`, 2; `place` also supports 2 and 1; `show_positions=True`; and those of every world:
    `prompt_format`, `representation` (natural_language or structured), `obs_mode`, `split`, `max_turns=3`,
    `max_actions_per_turn=2`, `max_steps=None`, `format_reward=0.5`, `prompt_example=True`,
    `system_prompt=False`, `format_reminder=False`, `reading="strict"`, `render_mode`. Defaults: VAGEN Table
    13. `reset(options={"level": text})` takes JSON in the format of `dynamics.dump(state)`.

    ## Requirements
    The extra `manipulation` (SAPIEN, and ManiSkill for its robot model) and a Vulkan driver, such as Mesa's
    software driver of 2024 or later; on Debian 12 it is in bookworm-backports. Without them, the first reset
    raises `EngineUnavailableError`, which names what is missing. All worlds of a process share one simulator.

    ## Version History
    * v0: first version.
    """

    def __init__(
        self,
        *,
        task: str = "place",
        resolution: int = 256,
        camera: str = "front",
        grid_mm: int = 1,
        num_cubes: int | None = None,
        show_positions: bool = True,
        max_turns: int = 3,
        max_actions_per_turn: int = 2,
        **world_kwargs: Any,
    ) -> None:
        engine = EngineHandle()
        super().__init__(
            PrimitiveSkillDynamics(task=task, engine=engine, grid_mm=grid_mm, num_cubes=num_cubes),
            PrimitiveSkillView(engine=engine, resolution=resolution, camera=camera),
            PrimitiveSkillTask(task=task, show_positions=show_positions),
            max_turns=max_turns,
            max_actions_per_turn=max_actions_per_turn,
            **world_kwargs,
        )
        self.set_picture_shape((resolution, resolution, 3))
