"""Navigation: find a thing in a furnished home, in first-person view."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vlm_envs.content.homes import panda_engine
from vlm_envs.content.homes.home import LATTICE_CM, plan_bytes, words_of
from vlm_envs.content.homes.home_space import EYE_HEIGHT_M, TILT_DEGREES, bearing, free_space, seen_things
from vlm_envs.errors import ConfigError, LevelError
from vlm_envs.parts import Dynamics, Task, View
from vlm_envs.responses.formats import WITHOUT_SYMBOLS
from vlm_envs.spaces import MAX_RESOLUTION
from vlm_envs.splits import split_of
from vlm_envs.validation import require, require_choice, require_flag, require_positive
from vlm_envs.world import World
from vlm_envs.worlds.grids.grid_levels import longest_solution
from vlm_envs.worlds.navigation import navigation_levels, navigation_text
from vlm_envs.worlds.navigation.navigation_levels import (
    ACTION_NAMES,
    GRAMMAR,
    Action,
    NavigationState,
    Rules,
    Wanted,
    level_text,
    parse_level,
)
from vlm_envs.worlds.navigation.navigation_text import (
    INSTRUCTION_SETS,
    PHRASES,
    NavigationStateDict,
    Sighting,
    shortened,
    state_dict,
)


class HomeDynamics(Dynamics[NavigationState, Action]):
    """The rules of one configuration, without episode state.

    Args:
        rules: Rules of moves and success.
        wanted: Requirements for generated searches.
    """

    def __init__(self, rules: Rules, wanted: Wanted) -> None:
        self.rules, self.wanted = rules, wanted

    def generate(self, rng: np.random.Generator, split: str) -> NavigationState:
        """Returns a random search in a home whose floor plan belongs to a split.

        Raises:
            GenerationError: If no suitable search was found.
        """
        return navigation_levels.generate(rng, split, self.wanted, self.rules)

    def load(self, level: str) -> NavigationState:
        """Returns the search in a level text; its shortest plan may have any length.

        Raises:
            LevelError: If the text cannot be parsed, or the search is already over or cannot be solved.
        """
        state = parse_level(level)
        if not free_space(state.home, self.rules.num_steps).is_free_at((state.pose.x, state.pose.y)):
            raise LevelError(f"The agent cannot stand at {state.pose[:2]}: a wall or furniture is there.")
        if self.is_success(state):
            raise LevelError("The agent must not start where the target counts as found; move its pose away.")
        if self.cost_to_go(state) is None:
            raise LevelError("The target cannot be reached; move the furniture (things) or the agent's pose.")
        return state

    def dump(self, state: NavigationState) -> str:
        """Returns the search as JSON; `load` parses it."""
        return level_text(state)

    def level_split(self, level: str) -> str:
        """Returns the split of the home's floor plan."""
        home = self.load(level).home
        return split_of(plan_bytes(home.rooms, home.doors))

    def level_key(self, state: NavigationState) -> bytes:
        """Returns canonical bytes of the search's content: the home's digest, the pose, the target, the sentence."""
        return state.home.key + repr((*state.pose, state.target, state.instruction)).encode()

    def step(self, state: NavigationState, action: Action, rng: np.random.Generator) -> tuple[NavigationState, bool]:
        """Executes an action; a move into a wall or furniture, and a tilt beyond 60 degrees, change nothing."""
        pose = navigation_levels.act(state.pose, action, free_space(state.home, self.rules.num_steps))
        return (state, False) if pose is state.pose else (replace(state, pose=pose), True)

    def is_success(self, state: NavigationState) -> bool:
        """Returns whether the target is near enough and, if the rules require it, visible."""
        return navigation_levels.is_success(state.home, state.target, state.pose, self.rules)

    def plan(self, state: NavigationState) -> tuple[Action, ...] | None:
        """Returns a plan of the fewest actions, or None if there is none."""
        return navigation_levels.plan(state, self.rules)

    def suboptimal_plan(self, state: NavigationState) -> tuple[Action, ...] | None:
        """Returns the shortest plan in the unfurnished home, which may walk into furniture."""
        return navigation_levels.plan(state, self.rules, with_furniture=False)

    def cost_to_go(self, state: NavigationState) -> int | None:
        """Returns the fewest actions left, or None if the target is out of reach."""
        return navigation_levels.cost_to_go(state, self.rules)


class HomeView(View[NavigationState]):
    """Images and texts of searches in procedural homes.

    Args:
        size_px: Width and height of the images.
        fov_degrees: Horizontal and vertical field of view.
        max_visible: Maximum number of visible objects in the state and its texts, nearest first.
    """

    def __init__(self, *, size_px: int, fov_degrees: float, max_visible: int) -> None:
        self.size_px, self.fov_degrees, self.max_visible = size_px, fov_degrees, max_visible

    def image(self, state: NavigationState) -> NDArray[np.uint8]:
        """Returns the agent's view, uint8[size_px, size_px, 3].

        Raises:
            EngineUnavailableError: If the software renderer is not installed.
        """
        x, y, heading, tilt = state.pose
        camera = panda_engine.Camera(
            x_m=x * LATTICE_CM / 100,
            y_m=y * LATTICE_CM / 100,
            z_m=EYE_HEIGHT_M,
            heading_degrees=heading * 90,
            tilt_degrees=tilt * TILT_DEGREES,
            fov_degrees=self.fov_degrees,
            size_px=self.size_px,
        )
        return panda_engine.engine().picture(state.home, camera)

    def structured(self, state: NavigationState) -> NavigationStateDict:
        """Returns the search as plain data, as a new object."""
        return shortened(_structured(state, self.fov_degrees), self.max_visible)

    def describe(self, state: NavigationState, representation: str) -> str:
        """Returns the search in words; raises `ConfigError` for an unknown representation."""
        return navigation_text.describe(self.structured(state), representation)


@lru_cache(maxsize=1024)
def _structured(state: NavigationState, fov_degrees: float) -> NavigationStateDict:
    """Returns the search as plain data; cached because every step needs it twice, as data and in words."""
    seen = [
        Sighting(thing.kind, *bearing(state.pose, thing.x_cm / 100, thing.y_cm / 100))
        for thing in map(state.home.things.__getitem__, seen_things(state.home, state.pose, fov_degrees))
    ]
    return state_dict(Sighting(state.target_type, *state.target_bearing), seen)


SUCCESS_REWARD = 10.0
STEP_PENALTY = -0.1


class NavigationTask(Task[Any, Action]):
    """Find what the instruction asks for, with states of either engine. Rewards: VAGEN Table 18.

    Args:
        step_length_m: Length of a move.
        success_threshold_m: Distance from the target that counts as having found it.
        require_visible: Whether the target must also be visible.
    """

    name = "Navigation"
    goal = (
        "You are in a furnished home and see through your own camera; find what you are asked for and go close to it."
    )
    grammar = GRAMMAR
    action_names = ACTION_NAMES
    representations = WITHOUT_SYMBOLS
    representation_help = {  # noqa: RUF012
        "natural_language": (
            "Describe states by where the target and what you see are from you (ahead, to the left, to the right, "
            "behind) and how far, nearest first, such as: the toaster is ahead at 2.59 m. "
            "visible: the cabinet is to the left at 0.94 m. the sink is ahead at 1.30 m."
        ),
        "structured": (
            "Write states as {target_obj_type: Toaster, target_distance_to_player: 2.59, "
            "target_direction_to_player: ahead, visible_objects: [{type: Cabinet, direction_to_player: left, "
            "distance_to_player: 0.94}]} with directions ahead, left, right, back and distances in metres."
        ),
    }

    def __init__(self, *, step_length_m: float, success_threshold_m: float, require_visible: bool) -> None:
        self.step_length_m = step_length_m
        seen = " with it in view" if require_visible else ""
        self.rules = (
            f"Moves are {step_length_m:g} m in the direction you name, seen from where you look; "
            "rotations are 90 degrees; looking up or down tilts the camera by 30 degrees.",
            f"You are done within {success_threshold_m:g} m of it{seen}. Walls and furniture stop you.",
        )

    def instruction(self, state: Any) -> str:
        """Returns the sentence that asks for the target."""
        return f"Instruction: {state.instruction}"

    def write_action(self, action: Action) -> str:
        """Returns the action's name."""
        return action.title

    def reasoning(self, state: Any, actions: Sequence[Action], foresee: Callable[[int], Any]) -> str:
        """Returns the target's position along and across the view, e.g. `"toaster 1.8 m ahead, 0.4 m to the left"`.

        Distance and direction alone do not determine the number of moves ahead and to the side.
        """
        ahead_m, right_m = state.target_bearing
        along = f"{abs(ahead_m):.1f} m {'behind' if ahead_m < 0 else 'ahead'}"
        across = f"{abs(right_m):.1f} m to the {'left' if right_m < 0 else 'right'}"
        return f"{words_of(state.target_type)} {along}, {across}"

    def expert_sections(self, state: Any, actions: Sequence[Action]) -> Mapping[str, str]:
        """Returns the target's position as a free-form thought."""
        return self.seen_sections(state)

    def seen_sections(self, state: Any) -> Mapping[str, str]:
        """Returns the number of moves to the target as a free-form thought, e.g. `"5 ahead, 2 left"`.

        The moves follow from it; full states would be five times as long to learn.
        """
        ahead, right = (round(metres / self.step_length_m) for metres in state.target_bearing)
        along, across = "behind" if ahead < 0 else "ahead", "left" if right < 0 else "right"
        return {"think": f"{abs(ahead)} {along}, {abs(right)} {across}"}

    def reward_terms(self, state: Any, next_state: Any, *, success: bool) -> dict[str, float]:
        """Returns the success reward at the target, the step penalty otherwise."""
        return {"success": SUCCESS_REWARD} if success else {"step": STEP_PENALTY}

    def noop_terms(self) -> dict[str, float]:
        """Returns one step penalty, so that doing nothing is never free."""
        return {"step": STEP_PENALTY}

    def best_return(self, state: Any, num_actions: int) -> float:
        """Returns the return for finding the target with the last of `num_actions` actions."""
        return SUCCESS_REWARD + STEP_PENALTY * (num_actions - 1)


ENGINES = ("panda3d", "ai2thor")


class NavigationWorld(World[Any, Action]):
    """Navigation: find a thing in a furnished home, in first-person view.

    ## Description
    A home of two to four rooms with doorways and about 35 things of 51 kinds, drawn at random on every reset.
    The agent sees an image from 1.3 m above the floor and is asked to find one thing: by name, use, or
    appearance. It stands on a lattice of 0.25 m and looks in one of four directions; walls and furniture stop
    it.

    Homes are drawn by panda3d's software renderer, which needs neither GPU nor display and produces the same
    bytes in every process (extra `navigation`).

    ## Action Space
    `FreeText`: the model's whole response in the strategy's format. The answer contains actions from
        moveahead, moveback, moveright, moveleft (one step each), rotateright, rotateleft (90°), lookup,
        lookdown (30°, at most 60° from level), separated by commas, in any case; those beyond
        `max_actions_per_turn` are dropped (VAGEN Table 10). A blocked action changes nothing.

    ## Observation Space
    `Dict(text=FreeText, image=Box(uint8[resolution, resolution, 3]))`; without `image` in text mode. The
    first text contains the instruction.

    ## State
    `info["state"]` is a dictionary with the keys of VAGEN, Appendix D.1: `target_obj_type`,
    `target_distance_to_player` (horizontal, in meters), `target_direction_to_player` (`ahead`, `left`,
    `right` or `back`, within 45°) and `visible_objects`, a list of `type`, `direction_to_player`,
    `distance_to_player`, nearest first. An object is visible if its middle is in the image and no wall or
    solid furniture hides it. The representations are `natural_language` and `structured`, both derived from
    this dictionary, with the `max_visible` nearest objects.

    ## Rewards
    +10 when the target is found, -0.1 for every other action (and for a turn without actions), +0.5 per turn
    for a response in the format (VAGEN Table 18). The trainer adds reasoning rewards.

    ## Starting State
    A random home whose floor plan belongs to the split, a target that the instruction identifies
    unambiguously, and a place from which the shortest plan takes `min_solution_length` to `max_turns *
    max_actions_per_turn` actions. The target is in the same room and in the first image. In the set
    `long_horizon`, it is in another room, named in the instruction, and out of sight, and the plan takes at
    least 8 actions. In the other sets, an agent that always moves ahead finds about 30% of the targets, and
    the best fixed sequence of twenty moves finds more: compare with the agent `lazy`, which searches for such
    sequences, not with 0.

    ## Episode End
    Terminated when the target is found: the agent is within `success_threshold` meters of its middle,
    measured on the floor, and, with `require_visible=True`, sees it. Truncated after `max_turns` turns.

    ## Arguments
    `instruction_set="base"`: `base` asks by name, `common_sense` by use, `complex_instruction` by name with
    distractions, `visual_appearance` by color and shape, `long_horizon` by name and room. `resolution=255`,
    up to 2048; `fov=100`; `step_length=0.25`, a multiple of 0.25; `success_threshold=1.0`;
    `require_visible=False`; `min_solution_length=5` (8 in `long_horizon`); `things=None`, the kinds of things
    in homes, such as `("Bed", "Fridge")`, or all (panda3d only); `max_visible=5`; `engine="panda3d"`; and
    those of every world: `prompt_format`, `representation`, `obs_mode`, `split`, `max_turns=4`,
    `max_actions_per_turn=5`, `max_steps=None`, `format_reward=0.5`, `prompt_example=True`,
    `system_prompt=False`, `format_reminder=False`, `reading="strict"`, `render_mode`. Defaults: VAGEN Table
    11. Its `down_sample_ratio` and `multiview` have no counterpart here: set `resolution` directly.
    `reset(options={"level": text})` takes the JSON that `render()` returns with `render_mode="ansi"`.

    ## Second engine
    `engine="ai2thor"` uses AI2-THOR's scenes for the same task (extra `ai2thor`, version 5.0.0).
    `local_executable_path` is a local Unity build; without one, AI2-THOR downloads its own. `scenes` lists
    scene names, by default the 120 rooms of iTHOR; `task_file` is a JSON file with EmbodiedBench's format
    (see `ai2thor_tasks`), which then defines scenes, targets, instructions, and starts. This engine is less
    tested than the homes above: no Unity build could be obtained during development (`ValueError: Invalid
    commit_id ... no build exists`), so it was tested only with a mock of AI2-THOR's controller and with the
    actual error.

    ## Version History
    * v0: first version.
    """

    def __init__(
        self,
        *,
        instruction_set: str = "base",
        resolution: int = 255,
        fov: float = 100,
        step_length: float = 0.25,
        success_threshold: float = 1.0,
        require_visible: bool = False,
        min_solution_length: int | None = None,
        things: Sequence[str] | None = None,
        max_visible: int = 5,
        engine: str = "panda3d",
        local_executable_path: str | PathLike[str] | None = None,
        scenes: Sequence[str] | None = None,
        task_file: str | PathLike[str] | None = None,
        max_turns: int = 4,
        max_actions_per_turn: int = 5,
        **world_kwargs: Any,
    ) -> None:
        require_choice("instruction_set", instruction_set, INSTRUCTION_SETS)
        require_choice("engine", engine, ENGINES)
        self.resolution = require_positive("resolution", resolution, minimum=16, maximum=MAX_RESOLUTION)
        require_positive("max_visible", max_visible, minimum=0)
        rules = Rules(
            num_steps=_num_steps(step_length),
            success_cm=_within("success_threshold", success_threshold, 0.25, 10.0) * 100,
            require_visible=require_flag("require_visible", require_visible),
            fov_degrees=_within("fov", fov, 20, 150),
        )
        if min_solution_length is None:
            min_solution_length = 8 if instruction_set == "long_horizon" else 5
        wanted = Wanted(
            instruction_set=instruction_set,
            min_solution_length=min_solution_length,
            max_solution_length=longest_solution(None, min_solution_length, max_turns, max_actions_per_turn),
            things=_kinds(things),
        )
        of_ai2thor: dict[str, Any] = {
            "local_executable_path": local_executable_path,
            "scenes": scenes,
            "task_file": task_file,
        }
        of_other = {"things": things} if engine == "ai2thor" else of_ai2thor
        for name in (name for name, value in of_other.items() if value is not None):
            raise ConfigError(f"{name} belongs to the other engine; got engine={engine!r}.")
        dynamics: Dynamics[Any, Action]
        view: View[Any]
        if engine == "ai2thor":
            from vlm_envs.worlds.navigation.ai2thor_engine import make_ai2thor

            dynamics, view = make_ai2thor(rules, wanted, size_px=resolution, max_visible=max_visible, **of_ai2thor)
        else:
            dynamics = HomeDynamics(rules, wanted)
            view = HomeView(size_px=resolution, fov_degrees=rules.fov_degrees, max_visible=max_visible)
        task = NavigationTask(
            step_length_m=step_length, success_threshold_m=success_threshold, require_visible=require_visible
        )
        super().__init__(
            dynamics, view, task, max_turns=max_turns, max_actions_per_turn=max_actions_per_turn, **world_kwargs
        )
        self.set_picture_shape((resolution, resolution, 3))


def _kinds(things: Sequence[str] | None) -> tuple[str, ...] | None:
    """Returns the kinds of things in homes, or None for all."""
    if things is None:
        return None
    kinds = (things,) if isinstance(things, str) else tuple(things)
    require(bool(kinds), "things must list at least one kind; omit it for all.")
    for kind in kinds:
        require_choice("things", kind, PHRASES)
    return kinds


def _num_steps(step_length: float) -> int:
    """Returns a move's length in lattice steps."""
    length = _within("step_length", step_length, LATTICE_CM / 100, 1.0)
    num_steps = length * 100 / LATTICE_CM
    if num_steps != int(num_steps):
        raise ConfigError(f"step_length must be a multiple of {LATTICE_CM / 100} m; got {step_length!r}.")
    return int(num_steps)


def _within(name: str, value: object, low: float, high: float) -> float:
    """Returns a number within bounds."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(number := float(value)) or not low <= number <= high:  # type: ignore[arg-type]
        raise ConfigError(f"{name} must be a number from {low:g} to {high:g}; got {value!r}.")
    return number
