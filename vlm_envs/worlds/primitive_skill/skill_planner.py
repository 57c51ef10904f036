"""Primitive actions, and the oracle that plans them from any state without simulation.

It knows all positions and the effect of each primitive. Each successful action brings the state one action
closer to the goal, so replanning after every action gives the rest of the plan. Plans use pick and place to
put something somewhere, and push for things that slide. They are the shortest plans of that kind; a lucky
push onto a target would save one action.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from vlm_envs.responses.parsing import ActionGrammar
from vlm_envs.worlds.primitive_skill.skill_state import (
    CUBE_HALF_M,
    DRAWER_OPEN_M,
    DRAWER_SHUT_M,
    DRAWER_TRAVEL_M,
    FRAME_X_M,
    Drawer,
    Goal,
    GoalKind,
    Millimetres,
    PrimitiveSkillState,
    is_in_drawer,
    is_in_workspace,
    is_met,
    is_solved,
    point_mm,
)


class Skill(StrEnum):
    """The kinds of primitives. Source: VAGEN, Table 12."""

    PICK = "pick"
    PLACE = "place"
    PUSH = "push"


@dataclass(frozen=True, slots=True)
class Primitive:
    """One primitive.

    Attributes:
        skill: Its kind.
        point: Where to pick or place, or the center of the thing to push; x, y, z in mm.
        end: Where that center should go, in mm; for pushes only.
    """

    skill: Skill
    point: Millimetres
    end: Millimetres | None = None

    def is_within(self, task: str) -> bool:
        """Returns whether all its points are within the workspace limits of a task."""
        return is_in_workspace(self.point, task) and (self.end is None or is_in_workspace(self.end, task))

    def __str__(self) -> str:
        """Formats the primitive as an agent writes it, such as `pick(62,-55,20)`."""
        numbers = (*self.point, *(self.end or ()))
        return f"{self.skill.value}({','.join(map(str, numbers))})"


_NUMBER = r"\s*(-?[0-9]{1,6})(?:\.0{1,6})?\s*"  # 20.0 also counts as an integer
_POINT_SKILL = re.compile(rf"(pick|place)\s*\({_NUMBER},{_NUMBER},{_NUMBER}\)", re.IGNORECASE)
_PUSH = re.compile(rf"(push)\s*\({','.join([_NUMBER] * 6)}\)", re.IGNORECASE)


def parse_primitive(text: str) -> Primitive | None:
    """Parses a primitive, possibly with points outside the workspace; None if the text is not valid."""
    match = _POINT_SKILL.fullmatch(text) or _PUSH.fullmatch(text)
    if match is None:
        return None
    x, y, z, *rest = (int(number) for number in match.groups()[1:])
    end = (rest[0], rest[1], rest[2]) if rest else None
    return Primitive(Skill(match.group(1).lower()), (x, y, z), end)


GRAMMAR: ActionGrammar[Primitive] = ActionGrammar(
    parse=parse_primitive,
    separator="|",
    expected="pick(x,y,z), place(x,y,z) or push(x1,y1,z1,x2,y2,z2) with whole numbers",
)


_CUBE_MM = round(2000 * CUBE_HALF_M)
_HALF_MM = _CUBE_MM // 2
_DROP_MM = 20
"""Height above its resting position at which a cube is released."""
_SIDE_SPANS = (range(-60, 121, 30), range(-170, 171, 20))
"""Places to put things aside, relative to ManiSkill's origin."""
_LANE_HALF_MM, _LANE_BEHIND_MM, _LANE_AHEAD_MM = 50, 80, 45
"""Free lane required for a push along x."""
_ON_TOP_MM, _TAKEN_MM = 30, 60
_FARTHEST_PUSHED_X_MM = 115
"""Farthest x of a thing pushed towards the arm; beyond it, the arm may not reach behind the thing."""


class _NoPlanError(Exception):
    """A required thing is out of reach."""


def plan(state: PrimitiveSkillState) -> tuple[Primitive, ...] | None:
    """Returns primitives that solve the task, () if it is solved; None if a required thing is out of reach."""
    if is_solved(state):
        return ()
    paper = _Paper(
        places=[point_mm(cube.position) for cube in state.cubes],
        taken=[point_mm(target.point) for target in state.targets],
        held=state.held,
        steps=[],
        task=state.task,
    )
    try:
        if state.task == "drawer":
            _plan_drawer(state, paper)
        else:
            _plan_table(state, paper)
    except _NoPlanError:
        return None
    return tuple(paper.steps) if all(step.is_within(state.task) for step in paper.steps) else None


def suboptimal_plan(state: PrimitiveSkillState) -> tuple[Primitive, ...] | None:
    """Returns a plan that ignores which target a cube belongs on and minimizes the total distance instead.

    It differs from `plan` on about half of the `place` tables with two targets. If it has nothing left to do,
    it returns `plan`.
    """
    asked = [index for index, goal in enumerate(state.goals) if goal.kind is GoalKind.ON_TARGET]

    def way_m(order: tuple[int, ...]) -> float:
        return sum(
            math.dist(state.cubes[state.goals[index].cube].position[:2], state.targets[where].point[:2])
            for index, where in zip(asked, order, strict=True)
        )

    shortest = min(itertools.permutations(range(len(state.targets)), len(asked)), key=way_m)
    goals = list(state.goals)
    for index, where in zip(asked, shortest, strict=True):
        goals[index] = replace(goals[index], where=where)
    return plan(replace(state, goals=tuple(goals))) or plan(state)


@dataclass
class _Paper:
    """The planner's working state: future positions of the cubes, and the steps so far."""

    places: list[Millimetres]
    taken: list[Millimetres]
    held: int | None
    steps: list[Primitive]
    task: str

    def require_reach(self, place: Millimetres) -> None:
        if not is_in_workspace(place, self.task):
            raise _NoPlanError

    def pick(self, cube: int) -> None:
        self.require_reach(self.places[cube])
        self.steps.append(Primitive(Skill.PICK, self.places[cube]))
        self.held = cube

    def place(self, x: int, y: int, z: int) -> None:
        """Releases the held cube so that its center rests at a point."""
        assert self.held is not None
        self.steps.append(Primitive(Skill.PLACE, (x, y, z + _DROP_MM)))
        self.places[self.held] = (x, y, z)
        self.held = None

    def put_aside(self) -> None:
        """Releases the held cube where nothing else is or will be."""
        others = [position for cube, position in enumerate(self.places) if cube != self.held] + self.taken
        x_mm = round(1000 * FRAME_X_M[self.task])
        spots = itertools.product((x + x_mm for x in _SIDE_SPANS[0]), _SIDE_SPANS[1])
        self.place(*_emptiest(spots, others), _HALF_MM)

    def uncover(self, cube: int) -> None:
        """Removes everything that is on a cube."""
        self.clear(self.above(cube))

    def clear(self, cubes: list[int]) -> None:
        """Removes cubes, the highest first."""
        for cube in sorted(cubes, key=lambda index: -self.places[index][2]):
            self.pick(cube)
            self.put_aside()

    def near(self, spot: Millimetres, but: int) -> list[int]:
        """Returns the cubes, except one, that obstruct a cube at a spot on the table."""
        return [other for other in self._others(but) if math.dist(self.places[other][:2], spot[:2]) < _TAKEN_MM]

    def above(self, cube: int) -> list[int]:
        """Returns the cubes on top of a cube."""
        x, y, z = self.places[cube]
        places = ((other, self.places[other]) for other in self._others(cube))
        return [other for other, at in places if at[2] - z > _HALF_MM and math.dist(at[:2], (x, y)) < _ON_TOP_MM]

    def _others(self, cube: int) -> list[int]:
        return [other for other in range(len(self.places)) if other not in (cube, self.held)]


def _emptiest(spots: Iterable[tuple[int, int]], others: Sequence[Millimetres]) -> tuple[int, int]:
    """Returns the spot that is farthest from its nearest other thing."""
    return max(spots, key=lambda spot: min((math.dist(spot, other[:2]) for other in others), default=0.0))


def _plan_table(state: PrimitiveSkillState, paper: _Paper) -> None:
    """Plans `place`, `stack`, and `align`: cubes on the table first, towers last."""
    goals = [goal for goal in state.goals if not is_met(state, goal)]
    goals.sort(key=lambda goal: (goal.kind is GoalKind.ON_CUBE, goal.cube != paper.held))
    if paper.held is not None and (goals[0].cube != paper.held or not _can_finish(goals[0], paper)):
        paper.put_aside()
    for goal in goals:
        if goal.kind is GoalKind.ALIGNED:
            _align(goal, paper)
        else:
            _bring(goal, paper)


def _can_finish(goal: Goal, paper: _Paper) -> bool:
    """Returns whether the held cube's destination is free."""
    if goal.kind is GoalKind.ALIGNED:
        return True
    if goal.kind is GoalKind.ON_TARGET:
        return not paper.near(paper.taken[goal.where], goal.cube)
    return not paper.above(goal.where)


def _bring(goal: Goal, paper: _Paper) -> None:
    """Picks a cube and places it on its target or its base."""
    if paper.held != goal.cube:
        paper.uncover(goal.cube)
        if goal.kind is GoalKind.ON_CUBE:
            paper.uncover(goal.where)
        else:
            paper.clear(paper.near(paper.taken[goal.where], goal.cube))
        paper.pick(goal.cube)
    if goal.kind is GoalKind.ON_CUBE:
        x, y, z = paper.places[goal.where]
        paper.require_reach((x, y, z))
        paper.place(x, y, z + _CUBE_MM)
    else:
        x, y, _ = paper.taken[goal.where]
        paper.place(x, y, _HALF_MM)


def _align(goal: Goal, paper: _Paper) -> None:
    """Pushes a cube to its line, or carries it if a push would hit another cube."""
    if paper.held != goal.cube:
        paper.uncover(goal.cube)
        x, y, z = paper.places[goal.cube]
        if z <= _HALF_MM + _DROP_MM // 2 and not _is_blocked(goal, paper):
            paper.require_reach((x, y, z))
            paper.steps.append(Primitive(Skill.PUSH, (x, y, z), (goal.where, y, z)))
            paper.places[goal.cube] = (goal.where, y, z)
            return
        paper.pick(goal.cube)
    others = [position for cube, position in enumerate(paper.places) if cube != goal.cube]
    paper.place(*_emptiest(((goal.where, y) for y in _SIDE_SPANS[1]), others), _HALF_MM)


def _is_blocked(goal: Goal, paper: _Paper) -> bool:
    """Returns whether the arm cannot reach behind a cube, or another cube is in the lane of its push along x."""
    x, y, _ = paper.places[goal.cube]
    if x > _FARTHEST_PUSHED_X_MM:
        return True
    forwards = 1 if goal.where > x else -1
    ends = sorted((x - forwards * _LANE_BEHIND_MM, goal.where + forwards * _LANE_AHEAD_MM))
    return any(
        ends[0] < position[0] < ends[1] and abs(position[1] - y) < _LANE_HALF_MM
        for cube, position in enumerate(paper.places)
        if cube != goal.cube
    )


def _plan_drawer(state: PrimitiveSkillState, paper: _Paper) -> None:
    """Plans `drawer`: open, pick, place inside, shut, omitting completed steps."""
    drawer, cube = state.drawer, state.goals[0].cube
    assert drawer is not None, "the drawer task has a drawer"
    opened = Drawer(y_mm=drawer.y_mm, open_m=DRAWER_TRAVEL_M)
    shut = Drawer(y_mm=drawer.y_mm, open_m=0.0)
    paper.taken = [point_mm(state.handle) for state in (drawer, opened)] + [point_mm(opened.inside)]
    is_open = drawer.open_m >= DRAWER_OPEN_M
    if not is_in_drawer(state, cube):
        if paper.held is not None and not (is_open and paper.held == cube):
            paper.put_aside()
        if not is_open:
            paper.steps.append(Primitive(Skill.PUSH, point_mm(drawer.handle), point_mm(opened.handle)))
            drawer = opened
        if paper.held is None:
            paper.uncover(cube)
            paper.pick(cube)
        paper.place(*point_mm(drawer.inside))
    elif paper.held is not None:
        paper.put_aside()
    if drawer.open_m > DRAWER_SHUT_M:
        paper.steps.append(Primitive(Skill.PUSH, point_mm(drawer.handle), point_mm(shut.handle)))
