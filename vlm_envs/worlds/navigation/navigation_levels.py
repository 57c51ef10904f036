"""Levels of Navigation: actions, states, exact shortest plans, and random searches.

Every action can be undone by another one, so a single search outward from all successful positions gives the
length of the shortest plan from everywhere. It is cached per home and target, and each step is a lookup.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Any

import numpy as np

from vlm_envs.content.homes.home import KINDS, LATTICE_CM, Home, Thing
from vlm_envs.content.homes.home_generator import draw_plan, furnish
from vlm_envs.content.homes.home_space import MAX_TILT, FreeSpace, Pose, bearing, can_see, free_space
from vlm_envs.content.homes.home_text import home_data, read_home, read_whole
from vlm_envs.errors import GenerationError, LevelError
from vlm_envs.responses.parsing import ActionGrammar
from vlm_envs.worlds.grids.grid_levels import descend
from vlm_envs.worlds.navigation.navigation_text import target_candidates, write_instruction


class Action(IntEnum):
    """Actions of the agent. Source: VAGEN, Table 10."""

    MOVE_AHEAD = 0
    MOVE_RIGHT = 1
    MOVE_BACK = 2
    MOVE_LEFT = 3
    ROTATE_RIGHT = 4
    ROTATE_LEFT = 5
    LOOK_UP = 6
    LOOK_DOWN = 7

    @property
    def title(self) -> str:
        """The action as it is written, e.g. `"moveahead"`."""
        return self.name.replace("_", "").lower()

    @property
    def is_move(self) -> bool:
        """Whether it changes the position; a move's number is its direction in quarter turns clockwise from ahead."""
        return self <= Action.MOVE_LEFT


ACTIONS = tuple(Action)
ACTION_NAMES = tuple(ACTIONS[number].title for number in (0, 2, 1, 3, 4, 5, 6, 7))
"""The names in the order of the paper's prompt."""

_BY_NAME = {action.title: action for action in Action}


def parse_action(text: str) -> Action | None:
    """Returns the action with a name, ignoring case, or None."""
    return _BY_NAME.get(text.lower())


GRAMMAR = ActionGrammar(parse=parse_action, separator=",", expected="one of " + ", ".join(ACTION_NAMES))


MAX_LEVEL_CHARS = 60_000
MAX_INSTRUCTION_CHARS = 600
_KEYS = {"home", "pose", "target", "instruction"}


@dataclass(frozen=True, slots=True, kw_only=True)
class NavigationState:
    """A search at one moment; hashable, comparable, and picklable.

    Attributes:
        home: The home; the same object from step to step.
        pose: The agent's position and viewing direction.
        target: Index into `home.things` of the thing to find.
        instruction: The instruction to the agent.
    """

    home: Home
    pose: Pose
    target: int
    instruction: str

    @property
    def target_thing(self) -> Thing:
        """The thing to find."""
        return self.home.things[self.target]

    @property
    def target_type(self) -> str:
        """The kind of the thing to find."""
        return self.target_thing.kind

    @property
    def target_bearing(self) -> tuple[float, float]:
        """Horizontal distance of the target's middle ahead of and to the right of the agent, in meters."""
        return bearing(self.pose, self.target_thing.x_cm / 100, self.target_thing.y_cm / 100)


def level_text(state: NavigationState) -> str:
    """Serializes a state as JSON on one line; equal states give equal text."""
    content = {
        "home": home_data(state.home),
        "pose": list(state.pose),
        "target": state.target,
        "instruction": state.instruction,
    }
    return json.dumps(content, separators=(",", ":"), ensure_ascii=True)


def parse_level(level: str) -> NavigationState:
    """Parses a state, possibly over or unsolvable; the inverse of `level_text`.

    Raises:
        LevelError: If the text is not a state.
    """
    if not isinstance(level, str) or len(level) > MAX_LEVEL_CHARS:
        raise LevelError(f"A level must be a JSON text of at most {MAX_LEVEL_CHARS} characters, as dump() writes it.")
    try:
        content = json.loads(level)
    except (ValueError, RecursionError) as error:
        raise LevelError(f"A level must be a JSON text, as dump() writes it: {error}.") from error
    if not isinstance(content, dict) or set(content) != _KEYS:
        raise LevelError(f"A level must have exactly the keys {', '.join(sorted(_KEYS))}, as dump() writes it.")
    home = read_home(content["home"])
    return NavigationState(
        home=home,
        pose=_read_pose(content["pose"]),
        target=read_whole(content["target"], "A level's target", 0, len(home.things) - 1),
        instruction=_read_instruction(content["instruction"]),
    )


def _read_pose(content: Any) -> Pose:
    if not isinstance(content, list) or len(content) != 4:
        raise LevelError("A level's pose must be [x, y, heading, tilt].")
    bounds = ((0, 1000), (0, 1000), (0, 3), (-MAX_TILT, MAX_TILT))
    named = zip(Pose._fields, content, bounds, strict=True)
    return Pose(*(read_whole(value, f"A pose's {name}", low, high) for name, value, (low, high) in named))


def _read_instruction(content: Any) -> str:
    if not isinstance(content, str) or not 0 < len(content) <= MAX_INSTRUCTION_CHARS or not content.isprintable():
        raise LevelError(
            f"A level's instruction must be one line of 1 to {MAX_INSTRUCTION_CHARS} printable characters."
        )
    return content


UNREACHABLE = -1
_NUM_TILTS = 2 * MAX_TILT + 1
# Prefers to move straight ahead, so that the oracle's plan among the shortest ones looks natural
_PREFERENCE = (Action.MOVE_AHEAD, Action.MOVE_RIGHT, Action.MOVE_LEFT, Action.MOVE_BACK, *ACTIONS[4:])


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Rules of moves and success.

    Attributes:
        num_steps: Lattice steps per move.
        success_cm: Horizontal distance from the target's middle that counts as having found it, in
            centimeters.
        require_visible: Whether the target must also be visible.
        fov_degrees: Field of view, relevant if the target must be visible.
    """

    num_steps: int
    success_cm: float
    require_visible: bool
    fov_degrees: float


def act(pose: Pose, action: Action, space: FreeSpace) -> Pose:
    """Returns the pose after an action, or the same object if nothing changes."""
    if action.is_move:
        direction = (pose.heading + action) % 4
        index = space.index((pose.x, pose.y))
        if index < 0 or not space.can_step[direction][index]:
            return pose
        x, y = space.cell(index + space.offset(direction, space.num_steps))
        return pose._replace(x=x, y=y)
    if action in (Action.ROTATE_RIGHT, Action.ROTATE_LEFT):
        return pose._replace(heading=(pose.heading + (1 if action is Action.ROTATE_RIGHT else -1)) % 4)
    tilt = pose.tilt + (1 if action is Action.LOOK_UP else -1)
    return pose._replace(tilt=tilt) if abs(tilt) <= MAX_TILT else pose


def is_success(home: Home, target: int, pose: Pose, rules: Rules) -> bool:
    """Returns whether the target is near enough and, if required, visible."""
    if not _is_near(home, target, pose.x, pose.y, rules):
        return False
    return not rules.require_visible or can_see(home, pose, target, rules.fov_degrees)


def cost_to_go(state: NavigationState, rules: Rules, *, with_furniture: bool = True) -> int | None:
    """Returns the fewest actions to success, or None if there is no plan."""
    space = free_space(state.home, rules.num_steps, with_furniture)
    return _cost(state.pose, space, _field(state.home, state.target, rules, with_furniture), rules)


def plan(state: NavigationState, rules: Rules, *, with_furniture: bool = True) -> tuple[Action, ...] | None:
    """Returns a shortest plan, or None if there is none; equal states give equal plans."""
    space = free_space(state.home, rules.num_steps, with_furniture)
    field = _field(state.home, state.target, rules, with_furniture)
    return descend(
        state.pose,
        lambda pose: _cost(pose, space, field, rules),
        lambda pose: ((action, act(pose, action, space)) for action in _PREFERENCE),
    )


def _is_near(home: Home, target: int, x: int, y: int, rules: Rules) -> bool:
    thing = home.things[target]
    east, north = thing.x_cm - x * LATTICE_CM, thing.y_cm - y * LATTICE_CM
    return east * east + north * north <= rules.success_cm * rules.success_cm


def _cost(pose: Pose, space: FreeSpace, field: tuple[int, ...], rules: Rules) -> int | None:
    index = space.index((pose.x, pose.y))
    if index < 0:
        return None
    if rules.require_visible:
        index = (index * 4 + pose.heading) * _NUM_TILTS + pose.tilt + MAX_TILT
    return None if field[index] == UNREACHABLE else field[index]


@lru_cache(maxsize=1024)
def _field(home: Home, target: int, rules: Rules, with_furniture: bool) -> tuple[int, ...]:
    """Returns the fewest actions to success from each place or, if visibility matters, from each view of each place.

    All poses at the same distance are processed at once: bool[place, heading, tilt], or bool[place, 1, 1].
    """
    space = free_space(home, rules.num_steps, with_furniture)
    reached = np.zeros((len(space.is_free), *((4, _NUM_TILTS) if rules.require_visible else (1, 1))), bool)
    for index in np.flatnonzero(space.is_free).tolist():
        x, y = space.cell(index)
        if _is_near(home, target, x, y, rules):
            for heading, tilt in np.ndindex(reached.shape[1:]):
                pose = Pose(x, y, heading, tilt - MAX_TILT)
                reached[index, heading, tilt] = is_success(home, target, pose, rules)
    moves = [
        (np.flatnonzero(space.can_step[direction]), space.offset(direction, rules.num_steps)) for direction in range(4)
    ]
    distances = np.where(reached, 0, UNREACHABLE)
    frontier, distance = reached.copy(), 0
    while frontier.any():
        following = np.roll(frontier, 1, axis=1) | np.roll(frontier, -1, axis=1)
        following[:, :, 1:] |= frontier[:, :, :-1]
        following[:, :, :-1] |= frontier[:, :, 1:]
        for places, offset in moves:  # every heading has a move in all four directions
            following[places + offset] |= frontier[places]
        frontier, distance = following & ~reached, distance + 1
        reached |= frontier
        distances[frontier] = distance
    return tuple(distances.ravel().tolist())


NUM_HOMES = 200
_NUM_TARGETS = 8
_NUM_STARTS = 24
MIN_APPARENT_SIZE = 0.055
"""Minimum ratio of a target's size to its distance at the start: 6 pixels of a 255-pixel image at fov 100."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Requirements for generated searches.

    Attributes:
        instruction_set: A key of `INSTRUCTION_SETS`.
        min_solution_length: Minimum length of a shortest plan, in actions.
        max_solution_length: Maximum length of a shortest plan.
        things: Kinds of things in homes; None for all.
    """

    instruction_set: str
    min_solution_length: int
    max_solution_length: int
    things: tuple[str, ...] | None = None

    @property
    def starts_in_view(self) -> bool:
        """Whether the target is visible in the first image."""
        return self.instruction_set != "long_horizon"

    def holds(self, length: int) -> bool:
        """Returns whether a plan length is in the range."""
        return self.min_solution_length <= length <= self.max_solution_length


def generate(rng: np.random.Generator, split: str, wanted: Wanted, rules: Rules) -> NavigationState:
    """Returns a random search that meets the requirements, in a home whose floor plan belongs to a split.

    Start and target are in the same room and the target is in the first image, except in the set
    `long_horizon`, where the target is in another room and out of sight, as in EmbodiedBench's long-horizon
    tasks.

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
        f"{wanted.max_solution_length} actions was found for split {split!r} in {NUM_HOMES} homes. Widen the range "
        "(min_solution_length, max_turns, max_actions_per_turn), allow more things, or lower success_threshold or "
        "step_length."
    )


def _draw_start(rng: np.random.Generator, home: Home, target: int, wanted: Wanted, rules: Rules) -> Pose | None:
    """Returns a random start pose, or None if a few attempts find none."""
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
    """Returns the ratio of the target's larger side to its horizontal distance."""
    thing = state.target_thing
    east, north = thing.x_cm - state.pose.x * LATTICE_CM, thing.y_cm - state.pose.y * LATTICE_CM
    width, _, height = KINDS[thing.kind].size_cm
    return max(width, height) / max(float(np.hypot(east, north)), 1.0)
