"""Levels that a reader plays in the page: the same rules as the worlds', move by move."""

import random
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.models.board.board_spec import WorldSpec
from benchmarks.models.page.page_episodes import playable_levels
from tests.unit.benchmarks.models.page.made import LAKE, SOKOBAN, of
from vlm_envs.registration import make
from vlm_envs.splits import SPLIT_SEEDS, split_seeds

NUM_LEVELS, NUM_MOVES = 50, 40
MOVED = """([rules, drawing, moves]) => moves.map((move) => {
    drawing = GRIDS[rules].move(drawing, move);
    return [drawing, GRIDS[rules].isSolved(drawing), GRIDS[rules].isSolved(drawing) || GRIDS[rules].isLost(drawing)];
})"""
NAMES = ("Up", "Down", "Left", "Right")


def lines(env_id, kwargs):
    """Yields the start of a level, random moves, and what the world makes of each."""
    rng = random.Random(0)
    with closing(make(env_id, **kwargs).unwrapped) as world:
        dynamics = world.dynamics
        for seed in split_seeds("test", NUM_LEVELS):
            world.reset(seed=seed)
            state, moves, states = world.state, [rng.randrange(4) for _ in range(NUM_MOVES)], []
            start = dynamics.dump(state)
            for move in moves:
                state, _ = dynamics.step(state, move, world.np_random)
                states.append([dynamics.dump(state), dynamics.is_success(state), dynamics.is_over(state)])
            yield start, moves, states


@pytest.mark.parametrize(
    ("env_id", "rules", "kwargs"),
    [
        (LAKE, "frozen_lake", {}),
        (LAKE, "frozen_lake", {"size": 7, "frozen_probability": 0.6}),
        (SOKOBAN, "sokoban", {}),
        (SOKOBAN, "sokoban", {"dim_room": (8, 7), "num_boxes": 2, "max_turns": 9}),
    ],
)
def test_the_rules_of_the_page_are_the_worlds(opened, env_id, rules, kwargs):
    page = opened()
    pushed, ended = 0, 0
    for start, moves, states in lines(env_id, kwargs):
        assert page.evaluate(MOVED, [rules, start, moves]) == states
        pushed += any(state[0].count("P") == 0 for state in states)
        ended += states[-1][2]
    if rules == "frozen_lake":
        assert ended > 10  # Random walks do fall in, or the comparison would say little
    else:
        assert pushed > 5  # The player stood on a target in some


def plan(env_id, seed):
    with closing(make(env_id, split="test").unwrapped) as world:
        world.reset(seed=seed)
        return world.dynamics.plan(world.state)


@pytest.mark.parametrize("env_id", [LAKE, SOKOBAN])
def test_a_level_is_solved_in_the_fewest_moves(opened, env_id):
    page = opened(of("oracle", env_id))
    level = int(page.locator("#stage header .note").inner_text().split("test level ")[1].split(",")[0])
    seed = SPLIT_SEEDS["test"][level]
    page.keyboard.press("p")
    status = page.locator("#play-status")
    assert status.inner_text() == "0 moves so far. Agents have 9 moves."
    best = plan(env_id, seed)
    for move in best:
        page.keyboard.press(f"Arrow{NAMES[move]}")
    assert status.inner_text().startswith(f"Solved in {len(best)} moves, as few as can be. ")
    assert "oracle solved it" in status.inner_text()
    page.keyboard.press("u")
    assert status.inner_text().startswith(f"{len(best) - 1} move")
    page.keyboard.press("r")
    assert status.inner_text().startswith("0 moves")
    page.keyboard.press("Escape")
    assert not page.locator("#play").is_visible()


def test_a_hole_loses_and_buttons_move(opened):
    page = opened()
    level = {"drawing": "PO\n_G", "optimal": 2}
    page.evaluate(f"level => play(payload.levels['{LAKE}'], level, 'T', [])", level)
    page.locator(".pad [data-move='3']").click()
    assert page.locator("#play-status").inner_text() == "Lost in move 1. 2 moves are the least."
    page.locator(".pad [data-move='1']").click()
    assert page.locator("#play-board").get_attribute("aria-label").endswith("_X / _G")
    page.locator("[data-do=restart]").click()
    for move in ("0", "1", "3"):
        page.locator(f".pad [data-move='{move}']").click()
    assert page.locator("#play-status").inner_text() == "Solved in 3 moves. 2 moves are the least."


def episode(seed, start_hash):
    return {"seed": seed, "start_state_hash": start_hash}


def test_slippery_ice_and_changed_levels_are_not_offered():
    slippery = WorldSpec(env_id=LAKE, kwargs={"is_slippery": True}).record(Path())
    assert "slippery" in playable_levels(slippery, [])["reason"]
    seed = next(split_seeds("test", 1))
    with closing(make(LAKE, split="test")) as world:
        _, info = world.reset(seed=seed)
        optimal = world.unwrapped.optimal_actions_left()
    world = WorldSpec(env_id=LAKE).record(Path())
    found = playable_levels(world, [episode(seed, info["state_hash"]), episode(seed + 1, "another")])
    assert list(found["levels"]) == [str(seed)]
    assert found["levels"][str(seed)]["optimal"] == optimal
    assert playable_levels({**world, "env_id": "VLM/ZoomQA-v0"}, []) is None


def test_a_world_whose_settings_were_damaged_cannot_be_played():
    damaged = {**WorldSpec.parse(LAKE).record(Path()), "kwargs": {"max^turns": 2}}
    assert "has no such world any more" in playable_levels(damaged, [])["reason"]
