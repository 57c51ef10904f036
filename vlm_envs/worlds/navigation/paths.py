"""Movement, success and exact shortest plans.

Every action can be undone by another, so one search outwards from all places of success gives the length of the
shortest plan from everywhere; it is remembered per home and target, and a look-up answers each step.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from vlm_envs.content.homes.free_space import FreeSpace, free_space
from vlm_envs.content.homes.home import LATTICE_CM, Home
from vlm_envs.content.homes.sight import MAX_TILT, Pose, can_see
from vlm_envs.worlds.navigation.actions import ACTIONS, Action
from vlm_envs.worlds.navigation.state import NavigationState

UNREACHABLE = -1
_NUM_TILTS = 2 * MAX_TILT + 1
_NUM_VIEWS = 4 * _NUM_TILTS
# Straight ahead first: of several shortest plans the oracle takes the one a person would
_PREFERENCE = (Action.MOVE_AHEAD, Action.MOVE_RIGHT, Action.MOVE_LEFT, Action.MOVE_BACK, *ACTIONS[4:])


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What decides about moves and success.

    Attributes:
        num_steps: Lattice steps of one move.
        success_cm: Level distance from the target's middle that counts as having found it, in centimetres.
        require_visible: Whether the target must be seen too.
        fov_degrees: Field of view; matters if it must be seen.
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
    """Returns whether the target is near enough and, if it must be, seen."""
    if not _is_near(home, target, pose.x, pose.y, rules):
        return False
    return not rules.require_visible or can_see(home, pose, target, rules.fov_degrees)


def cost_to_go(state: NavigationState, rules: Rules, *, with_furniture: bool = True) -> int | None:
    """Returns the fewest actions to success, or None if there is no way."""
    space = free_space(state.home, rules.num_steps, with_furniture)
    cost = _cost(state.pose, space, _field(state.home, state.target, rules, with_furniture), rules)
    return None if cost == UNREACHABLE else cost


def plan(state: NavigationState, rules: Rules, *, with_furniture: bool = True) -> tuple[Action, ...] | None:
    """Returns a shortest plan, or None if there is none; equal states give equal plans."""
    space = free_space(state.home, rules.num_steps, with_furniture)
    field = _field(state.home, state.target, rules, with_furniture)
    pose, actions = state.pose, []
    cost = _cost(pose, space, field, rules)
    if cost == UNREACHABLE:
        return None
    while cost > 0:
        cost -= 1
        for action in _PREFERENCE:
            following = act(pose, action, space)
            if following is not pose and _cost(following, space, field, rules) == cost:
                actions.append(action)
                pose = following
                break
    return tuple(actions)


def _is_near(home: Home, target: int, x: int, y: int, rules: Rules) -> bool:
    thing = home.things[target]
    east, north = thing.x_cm - x * LATTICE_CM, thing.y_cm - y * LATTICE_CM
    return east * east + north * north <= rules.success_cm * rules.success_cm


def _cost(pose: Pose, space: FreeSpace, field: tuple[int, ...], rules: Rules) -> int:
    index = space.index((pose.x, pose.y))
    if index < 0:
        return UNREACHABLE
    return field[index * _NUM_VIEWS + _view(pose)] if rules.require_visible else field[index]


def _view(pose: Pose) -> int:
    return pose.heading * _NUM_TILTS + pose.tilt + MAX_TILT


@lru_cache(maxsize=1024)
def _field(home: Home, target: int, rules: Rules, with_furniture: bool) -> tuple[int, ...]:
    """Returns the fewest actions to success from each place, or from each pose if the target must be seen."""
    space = free_space(home, rules.num_steps, with_furniture)
    near = [
        index
        for index, is_free in enumerate(space.is_free)
        if is_free and _is_near(home, target, *space.cell(index), rules)
    ]
    if rules.require_visible:
        return _pose_field(home, target, rules, space, near)
    return _place_field(space, near)


def _place_field(space: FreeSpace, goals: list[int]) -> tuple[int, ...]:
    distances = [UNREACHABLE] * len(space.is_free)
    for goal in goals:
        distances[goal] = 0
    frontier = deque(goals)
    moves = [(space.can_step[direction], space.offset(direction, space.num_steps)) for direction in range(4)]
    while frontier:
        index = frontier.popleft()
        for can_step, offset in moves:
            if can_step[index] and distances[index + offset] == UNREACHABLE:
                distances[index + offset] = distances[index] + 1
                frontier.append(index + offset)
    return tuple(distances)


def _pose_field(home: Home, target: int, rules: Rules, space: FreeSpace, near: list[int]) -> tuple[int, ...]:
    """Returns as many entries a place as there are views, `_view` by `_view`.

    All poses that are equally far are reached at once: boolean arrays of shape [place, heading, tilt].
    """
    moves = [
        (np.flatnonzero(space.can_step[direction]), space.offset(direction, rules.num_steps)) for direction in range(4)
    ]
    reached = np.zeros((len(space.is_free), 4, _NUM_TILTS), bool)
    for index in near:
        for heading in range(4):
            for tilt in range(-MAX_TILT, MAX_TILT + 1):
                pose = Pose(*space.cell(index), heading, tilt)
                reached[index, heading, tilt + MAX_TILT] = can_see(home, pose, target, rules.fov_degrees)
    distances = np.where(reached, 0, UNREACHABLE)
    frontier, distance = reached.copy(), 0
    while frontier.any():
        following = np.roll(frontier, 1, axis=1) | np.roll(frontier, -1, axis=1)
        following[:, :, 1:] |= frontier[:, :, :-1]
        following[:, :, :-1] |= frontier[:, :, 1:]
        for places, offset in moves:  # Whatever the heading: each has a move in all four directions
            following[places + offset] |= frontier[places]
        frontier, distance = following & ~reached, distance + 1
        reached |= frontier
        distances[frontier] = distance
    return tuple(distances.ravel().tolist())
