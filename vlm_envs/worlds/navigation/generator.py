"""Random searches: a home, a target, a place to start from, and a sentence.

Start and target are in one room and the target is in the first picture, except in the set `long_horizon`, where the
target is in another room and out of sight. This follows EmbodiedBench, whose long-horizon tasks start without the
target in view.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vlm_envs.content.homes.floor_plans import draw_plan
from vlm_envs.content.homes.free_space import free_space
from vlm_envs.content.homes.furnishing import furnish
from vlm_envs.content.homes.home import LATTICE_CM, Home
from vlm_envs.content.homes.kinds import KINDS
from vlm_envs.content.homes.sight import Pose, can_see
from vlm_envs.errors import GenerationError
from vlm_envs.worlds.navigation.instructions import target_candidates, write_instruction
from vlm_envs.worlds.navigation.paths import Rules, cost_to_go
from vlm_envs.worlds.navigation.state import NavigationState

NUM_HOMES = 200
_NUM_TARGETS = 8
_NUM_STARTS = 24
MIN_APPARENT_SIZE = 0.055
"""Smallest size of a target over its distance at the start: 6 pixels of a 255 px picture at fov 100."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What kind of searches are wanted.

    Attributes:
        instruction_set: A key of `INSTRUCTION_SETS`.
        min_solution_length: Fewest actions of a shortest plan.
        max_solution_length: Most actions of a shortest plan.
        things: Kinds of things that homes hold; None for all.
    """

    instruction_set: str
    min_solution_length: int
    max_solution_length: int
    things: tuple[str, ...] | None = None

    @property
    def starts_in_view(self) -> bool:
        """Whether the target is in the first picture."""
        return self.instruction_set != "long_horizon"

    def holds(self, length: int) -> bool:
        """Returns whether a shortest plan's length is in the band."""
        return self.min_solution_length <= length <= self.max_solution_length


def generate(rng: np.random.Generator, split: str, wanted: Wanted, rules: Rules) -> NavigationState:
    """Returns a random search of the wanted kind in a home whose floor plan belongs to a split.

    Raises:
        GenerationError: If none was found in `NUM_HOMES` homes.
    """
    for _ in range(NUM_HOMES):
        home = furnish(rng, *draw_plan(rng, split), wanted.things)
        candidates = target_candidates(home, wanted.instruction_set)
        for choice in rng.permutation(len(candidates))[:_NUM_TARGETS].tolist():
            start = _draw_start(rng, home, candidates[choice], wanted, rules)
            if start is not None:
                sentence = write_instruction(rng, home, candidates[choice], wanted.instruction_set)
                return NavigationState(home=home, pose=start, target=candidates[choice], instruction=sentence)
    raise GenerationError(
        f"No search of set {wanted.instruction_set!r} with a shortest plan of {wanted.min_solution_length} to "
        f"{wanted.max_solution_length} actions was found for split {split!r} in {NUM_HOMES} homes. Widen the band "
        "(min_solution_length, max_turns, max_actions_per_turn), allow for more things, or lower success_threshold or "
        "step_length."
    )


def _draw_start(rng: np.random.Generator, home: Home, target: int, wanted: Wanted, rules: Rules) -> Pose | None:
    """Returns a random pose to start from, or None if a few tries find none."""
    room = home.room_of_thing(home.things[target])
    space = free_space(home, rules.num_steps)
    places = [
        space.cell(index)
        for index, is_free in enumerate(space.is_free)
        if is_free and (home.room_of(space.cell(index)) == room) == wanted.starts_in_view
    ]
    for choice in rng.permutation(len(places))[:_NUM_STARTS].tolist():
        pose = Pose(places[choice][0], places[choice][1], int(rng.integers(4)), 0)
        state = NavigationState(home=home, pose=pose, target=target, instruction="")
        if not wanted.starts_in_view and home.room_of(places[choice]) is None:
            continue
        if _is_wanted_view(state, wanted, rules):
            length = cost_to_go(state, rules)
            if length is not None and wanted.holds(length):
                return pose
    return None


def _is_wanted_view(state: NavigationState, wanted: Wanted, rules: Rules) -> bool:
    is_seen = can_see(state.home, state.pose, state.target, rules.fov_degrees)
    if not wanted.starts_in_view:
        return not is_seen
    return is_seen and apparent_size(state) >= MIN_APPARENT_SIZE


def apparent_size(state: NavigationState) -> float:
    """Returns how large the target looks: the larger of its width and height over its level distance."""
    thing = state.target_thing
    east, north = thing.x_cm - state.pose.x * LATTICE_CM, thing.y_cm - state.pose.y * LATTICE_CM
    width, _, height = KINDS[thing.kind].size_cm
    return max(width, height) / max(float(np.hypot(east, north)), 1.0)
