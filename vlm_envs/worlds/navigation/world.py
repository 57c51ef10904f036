"""VLM/Navigation-v0."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

from vlm_envs.content.homes.home import LATTICE_CM
from vlm_envs.errors import ConfigError
from vlm_envs.parts import Dynamics, View
from vlm_envs.spaces import MAX_RESOLUTION
from vlm_envs.validation import require_choice, require_flag, require_positive
from vlm_envs.world import World
from vlm_envs.worlds.navigation.actions import Action
from vlm_envs.worlds.navigation.dynamics import HomeDynamics
from vlm_envs.worlds.navigation.generator import Wanted
from vlm_envs.worlds.navigation.instructions import INSTRUCTION_SETS
from vlm_envs.worlds.navigation.paths import Rules
from vlm_envs.worlds.navigation.phrases import PHRASES
from vlm_envs.worlds.navigation.task import NavigationTask
from vlm_envs.worlds.navigation.view import HomeView

ENGINES = ("panda3d", "ai2thor")


class NavigationWorld(World[Any, Action]):
    """Navigation: find a thing in a furnished home, seen through the agent's own eyes.

    ## Description
    A home of two to four rooms with doorways and about 35 things of 51 kinds, drawn anew at every reset. The agent
    sees a picture from 1.3 m above the floor and is asked for one thing: by name, by use, by looks. It stands on a
    lattice of 0.25 m and looks in one of four directions; walls and furniture stop it.

    Homes are drawn by panda3d's software renderer, which needs neither GPU nor display and gives the same bytes in
    every process (extra `navigation`).

    ## Action Space
    `FreeText`: the model's whole response in the strategy's format. The answer holds actions from moveahead,
    moveback, moveright, moveleft (one step each), rotateright, rotateleft (90°), lookup, lookdown (30°, at most 60°
    from level), separated by commas, in any case; those beyond `max_actions_per_turn` are cut (VAGEN Table 10). An
    action that is blocked changes nothing.

    ## Observation Space
    `Dict(text=FreeText, image=Box(uint8[resolution, resolution, 3]))`; without `image` in text mode. The first text
    holds the instruction.

    ## State
    `info["state"]` is a dictionary with the keys of VAGEN, Appendix D.1: `target_obj_type`,
    `target_distance_to_player` (level, metres), `target_direction_to_player` (`ahead`, `left`, `right` or `back`,
    within 45° of it) and `visible_objects`, a list of `type`, `direction_to_player`, `distance_to_player`, nearest
    first. An object is visible if its middle is in the picture and no wall or solid furniture is before it.
    Representations are `natural_language` and `structured`, both written from this dictionary, with the `max_visible`
    nearest objects.

    ## Rewards
    +10 when the target is found, -0.1 for every other action (and for a turn without any), +0.5 a turn for a response
    in the format (VAGEN Table 18). Reasoning rewards are added by the trainer, not here.

    ## Starting State
    A random home whose floor plan belongs to the split, a target that the instruction means without doubt, and a place
    from which the shortest plan takes `min_solution_length` to `max_turns * max_actions_per_turn` actions. The target
    is in the same room and in the first picture. In the set `long_horizon` it is in another room, which the
    instruction names, out of sight, and the plan takes at least 8 actions.
    Otherwise an agent that always moves ahead finds about 0.3 of the targets, and always the same twenty moves, found
    by trying, find more: compare with the agent `lazy`, which looks for such moves, not with 0.

    ## Episode End
    Terminated when the target is found: the agent is within `success_threshold` metres of its middle, measured on the
    floor, and, with `require_visible=True`, sees it. Truncated after `max_turns` turns.

    ## Arguments
    `instruction_set="base"`: `base` asks by name, `common_sense` by use, `complex_instruction` by name among
    distractions, `visual_appearance` by colour and shape, `long_horizon` by name and room. `resolution=255`, to 2048;
    `fov=100`; `step_length=0.25`, a multiple of 0.25; `success_threshold=1.0`; `require_visible=False`;
    `min_solution_length=5` (8 in `long_horizon`); `things=None`, the kinds of things that homes hold, such as `("Bed",
    "Fridge")`, or all (panda3d only); `max_visible=5`; `engine="panda3d"`; and those of every world:
    `prompt_format`, `representation`, `obs_mode`, `split`, `max_turns=4`, `max_actions_per_turn=5`, `max_steps=None`,
    `format_reward=0.5`, `prompt_example=True`, `system_prompt=False`, `format_reminder=False`, `reading="strict"`,
    `render_mode`. Defaults: VAGEN Table 11. Its `down_sample_ratio` and `multiview` have no counterpart here: ask for
    the resolution you want. `reset(options={"level": text})` takes the JSON that `render()` gives with
    `render_mode="ansi"`.

    ## Second engine
    `engine="ai2thor"` plays the same task in AI2-THOR's scenes (extra `ai2thor`, version 5.0.0).
    `local_executable_path` names a Unity build on your disk; without one AI2-THOR downloads its own. `scenes` lists
    scene names, by default the 120 rooms of iTHOR; `task_file` is a JSON file of EmbodiedBench's form (see
    `ai2thor_tasks`), which then gives scenes, targets, instructions and starts. *What ran*: the homes above, tested
    in full. *What did not*: no Unity build could be obtained where this was written (`ValueError: Invalid commit_id
    ... no build exists`), so this engine is tested against a stand-in for AI2-THOR's controller, and against the real
    error, only.

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
        wanted = replace(
            _wanted(instruction_set, min_solution_length, max_turns, max_actions_per_turn), things=_kinds(things)
        )
        of_ai2thor: dict[str, Any] = {
            "local_executable_path": local_executable_path,
            "scenes": scenes,
            "task_file": task_file,
        }
        dynamics: Dynamics[Any, Action]
        view: View[Any]
        if engine == "ai2thor":
            if things is not None:
                raise ConfigError("things belongs to engine='panda3d'; got engine='ai2thor'.")
            from vlm_envs.worlds.navigation.ai2thor_engine import make_ai2thor

            dynamics, view = make_ai2thor(rules, wanted, size_px=resolution, max_visible=max_visible, **of_ai2thor)
        else:
            for name in (each for each, value in of_ai2thor.items() if value is not None):
                raise ConfigError(f"{name} belongs to engine='ai2thor'; got engine='panda3d'.")
            dynamics = HomeDynamics(rules, wanted)
            view = HomeView(size_px=resolution, fov_degrees=rules.fov_degrees, max_visible=max_visible)
        task: NavigationTask[Any] = NavigationTask(
            step_length_m=step_length, success_threshold_m=success_threshold, require_visible=require_visible
        )
        super().__init__(
            dynamics, view, task, max_turns=max_turns, max_actions_per_turn=max_actions_per_turn, **world_kwargs
        )
        self.set_picture_shape((resolution, resolution, 3))


def _wanted(instruction_set: str, min_length: int | None, max_turns: int, max_actions_per_turn: int) -> Wanted:
    """Returns which searches to generate: those that the turns allow for."""
    longest = require_positive("max_turns", max_turns) * require_positive("max_actions_per_turn", max_actions_per_turn)
    usual = 8 if instruction_set == "long_horizon" else 5
    shortest = usual if min_length is None else require_positive("min_solution_length", min_length)
    if shortest > longest:
        raise ConfigError(
            f"min_solution_length={shortest} does not fit into max_turns * max_actions_per_turn = {longest} actions; "
            "lower it or allow for more actions."
        )
    return Wanted(instruction_set=instruction_set, min_solution_length=shortest, max_solution_length=longest)


def _kinds(things: Sequence[str] | None) -> tuple[str, ...] | None:
    """Returns the kinds that homes hold, or None for all."""
    if things is None:
        return None
    kinds = (things,) if isinstance(things, str) else tuple(things)
    if not kinds:
        raise ConfigError("things must name at least one kind; leave it out for all.")
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
