"""The solvers against a brute-force search that shares no code with them but the rules of motion."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pytest

from vlm_envs.errors import SolverLimitError
from vlm_envs.worlds import sokoban_solver as solver
from vlm_envs.worlds.grids.grid_levels import Direction
from vlm_envs.worlds.sokoban import SokobanDynamics
from vlm_envs.worlds.sokoban_solver import Node, PushSearch, SokobanLayout, SokobanState, parse_level


def brute_force_cost(state: SokobanState) -> int | None:
    costs = {state: 0}
    frontier = deque([state])
    while frontier:
        current = frontier.popleft()
        if current.is_solved:
            return costs[current]
        for direction in Direction:
            successor = current.move(direction)
            if successor not in costs:
                costs[successor] = costs[current] + 1
                frontier.append(successor)
    return None


def random_room(rng: np.random.Generator, num_rows: int, num_cols: int, num_boxes: int) -> SokobanState:
    """Returns any room, solvable or not, with a wall or two inside."""
    inner = [(row, column) for row in range(1, num_rows - 1) for column in range(1, num_cols - 1)]
    order = [inner[index] for index in rng.permutation(len(inner))]
    num_inner_walls = int(rng.integers(0, 3))
    blocked, free = set(order[:num_inner_walls]), order[num_inner_walls:]
    walls = bytes(
        (row, column) not in inner or (row, column) in blocked for row in range(num_rows) for column in range(num_cols)
    )
    targets = [free[index] for index in rng.choice(len(free), num_boxes, replace=False)]
    layout = SokobanLayout(walls=walls, targets=tuple(sorted(targets)), num_rows=num_rows, num_cols=num_cols)
    return SokobanState(layout=layout, player=free[0], boxes=tuple(sorted(free[1 : num_boxes + 1])))


@pytest.mark.parametrize(
    ("num_rows", "num_cols", "num_boxes", "num_rooms"), [(6, 6, 1, 200), (6, 7, 2, 80), (6, 6, 3, 120)]
)
def test_costs_and_plans_are_optimal_on_random_rooms(
    num_rows: int, num_cols: int, num_boxes: int, num_rooms: int
) -> None:
    rng = np.random.default_rng(num_boxes)
    num_dead = 0
    for _ in range(num_rooms):
        state = random_room(rng, num_rows, num_cols, num_boxes)
        expected = brute_force_cost(state)
        assert solver.cost_to_go(state) == expected, state.level_text()
        plan = solver.plan(state)
        num_dead += expected is None
        if plan is None:
            assert expected is None
            continue
        assert len(plan) == expected
        for moves_made, action in enumerate(plan):
            assert solver.cost_to_go(state) == len(plan) - moves_made
            state = state.move(Direction(action))
        assert state.is_solved and solver.plan(state) == ()
    assert 10 <= num_dead <= num_rooms - 10, "both answers must be exercised"


def test_costs_stay_exact_off_the_plan() -> None:
    # The memory of the many-box solver must not leak wrong numbers into the states of a random walk.
    dynamics = SokobanDynamics(dim_room=(6, 6), num_boxes=2, max_solution_length=15)
    rng = np.random.default_rng(5)
    for seed in range(4):
        state = dynamics.generate(np.random.default_rng(seed), "train")
        for action in rng.integers(0, 4, size=12).tolist():
            state, _ = dynamics.step(state, action, rng)
            assert dynamics.cost_to_go(state) == brute_force_cost(state)


@pytest.mark.parametrize(
    ("level", "is_dead"),
    [
        ("######\n#X___#\n#_P_O#\n######", True),  # a box in a corner without a target
        ("######\n#_X__#\n#_P_O#\n######", True),  # a box along a wall without a target
        ("######\n#_XO_#\n#_P__#\n######", False),  # along a wall, with a target on it
        ("######\n#_XX_#\n#_P__#\n#_O_O#\n######", True),  # two boxes side by side on a wall hold each other
        ("######\n#____#\n#_XX_#\n#P___#\n#_OO_#\n######", False),
        ("#######\n#____O#\n#_XX_P#\n#_XX__#\n#_OOO_#\n#######", True),  # a square of four boxes
        ("######\n#_**_#\n#_P__#\n######", False),  # held, but where they belong
        ("#######\n#P#_XO#\n###___#\n#######", True),  # the player is shut away from the box
    ],
)
def test_deadlocks_by_hand(level: str, is_dead: bool) -> None:
    state = parse_level(level)
    assert (solver.cost_to_go(state) is None) == is_dead
    assert (solver.plan(state) is None) == is_dead


def test_a_known_plan() -> None:
    # Player left of the box, target two cells right of the box: push twice.
    assert solver.plan(parse_level("######\n#PX_O#\n######")) == (3, 3)


def hard_state() -> SokobanState:
    """Returns a room with three boxes that was not searched yet."""
    dynamics = SokobanDynamics(dim_room=(9, 9), num_boxes=3, min_solution_length=15, max_solution_length=40)
    state = dynamics.generate(np.random.default_rng(1), "train")
    solver.push_search.cache_clear()
    return state


def test_the_node_limit_is_an_error_and_not_an_answer() -> None:
    state = hard_state()
    with pytest.raises(SolverLimitError, match="within 3 search nodes for a room with 3 boxes"):
        solver.cost_to_go(state, max_num_nodes=3)
    assert solver.cost_to_go(state) is not None


def counted_searches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Returns a list to which every search from now on adds its node limit."""
    search, limits = PushSearch.search, list[int]()

    def counted(self: PushSearch, start: Node, *, max_num_nodes: int) -> Any:
        limits.append(max_num_nodes)
        return search(self, start, max_num_nodes=max_num_nodes)

    monkeypatch.setattr(PushSearch, "search", counted)
    return limits


def test_a_search_that_was_given_up_is_not_repeated_unless_it_may_go_further(monkeypatch: pytest.MonkeyPatch) -> None:
    """Showing a hard state again, as pages and windows do, does not repeat the search."""
    state, limits = hard_state(), counted_searches(monkeypatch)
    for limit in (3, 3, 2, 4, 3):
        with pytest.raises(SolverLimitError, match="No answer within"):
            solver.cost_to_go(state, max_num_nodes=limit)
    assert limits == [3, 4]
    assert solver.cost_to_go(state) is not None


def test_memory_of_searches_that_were_given_up_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver, "_MAX_REMEMBERED", 3)
    first, limits = hard_state(), counted_searches(monkeypatch)
    walked = [first.move(one).move(other) for one in Direction for other in Direction]
    others = dict.fromkeys(state for state in walked if state != first and state.boxes == first.boxes)
    states = [first, *list(others)[:3], first]
    for state in states:
        with pytest.raises(SolverLimitError):
            solver.cost_to_go(state, max_num_nodes=1)
    assert limits == [1] * 5, "the first state was forgotten, and is searched again"


def test_a_search_that_others_are_in_or_that_was_interrupted_is_not_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    state, search, seen = hard_state(), PushSearch.search, list[int | None]()

    def interrupted(self: PushSearch, start: Node, *, max_num_nodes: int) -> Any:
        monkeypatch.setattr(PushSearch, "search", search)
        seen.append(solver.cost_to_go(state))  # as a world in another thread would ask meanwhile
        raise KeyboardInterrupt

    monkeypatch.setattr(PushSearch, "search", interrupted)
    with pytest.raises(KeyboardInterrupt):
        solver.plan(state)
    assert seen == [solver.cost_to_go(state)] and seen[0] is not None
