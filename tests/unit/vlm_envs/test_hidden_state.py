"""The memory game of docs/own-world.md: what lies face down is in no observation, and the page shows the code."""

import re
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from vlm_envs.testing.checks import CHECKS
from vlm_envs.testing.contract import check_world
from vlm_envs.world import OBS_MODES, World

CHECKOUT = Path(__file__).parents[3]
PAGE = (CHECKOUT / "docs" / "own-world.md").read_text(encoding="utf-8")
LEVEL = "red green blue yellow red green blue yellow"


@pytest.fixture
def memory_game(monkeypatch):
    monkeypatch.syspath_prepend(str(CHECKOUT / "examples"))
    import memory_game

    yield memory_game
    del sys.modules["memory_game"]
    gym.registry.pop("Own/Memory-v0")


def colors_in(text: str) -> set[str]:
    return set(re.findall(r"\b(red|green|blue|yellow)\b", text))


@pytest.mark.parametrize("obs_mode", OBS_MODES)
def test_no_observation_shows_a_card_that_lies_face_down(obs_mode, memory_game):
    world = memory_game.MemoryWorld(obs_mode=obs_mode, prompt_format="no_think")
    observation, info = world.reset(options={"level": LEVEL})
    assert colors_in(observation["text"]) == set()
    assert info["state"]["cards"] == LEVEL.split(), "judges know all cards"
    observation, *_ = world.step("<answer>2</answer>")
    assert colors_in(observation["text"]) == (set() if obs_mode == "image" else {"blue"})
    if "image" in observation:
        shown = {tuple(map(int, color)) for color in observation["image"].reshape(-1, 3)}
        assert shown == {memory_game.COLORS["blue"], memory_game.FACE_DOWN, (0, 0, 0)}


def test_the_planner_finds_the_card_that_matches_the_open_one_first(memory_game):
    world = memory_game.MemoryWorld()
    world.reset(options={"level": LEVEL.replace("blue", "blue*", 1)})
    assert world.dynamics.plan(world.state)[0] == 6
    assert len(world.dynamics.plan(world.state)) == 7


@pytest.mark.parametrize("obs_mode", ["image", "image+description"])
def test_it_keeps_the_contract(obs_mode, memory_game):
    slow = ("same_seed_gives_the_same_bytes", "splits_are_disjoint", "is_a_gymnasium_env")
    others = tuple(check.__name__ for check in CHECKS if check.__name__ not in slow)
    results = check_world("Own/Memory-v0", obs_mode=obs_mode, skip=slow)
    assert [result.name for result in results if result.skipped is None] == [*others]


def test_the_page_shows_the_constructor_of_the_example():
    (signature,) = re.findall(r"```python\n(def __init__.*)\n```", PAGE)
    assert signature in (CHECKOUT / "examples" / "memory_game.py").read_text(encoding="utf-8")


def test_a_view_that_describes_more_keeps_it_out_of_the_true_description(memory_game):
    (code,) = re.findall(r"```python\n(class RevealingView.*?)```", PAGE, re.S)
    names = vars(memory_game).copy()
    exec(code, names)
    view = names["RevealingView"]()
    assert view.tells_answer
    for obs_mode, revealed in (("image", set()), ("image+description", set()), ("image+text", {"red", "blue"})):
        world = World(memory_game.MemoryDynamics(), view, memory_game.MemoryTask(), obs_mode=obs_mode)
        world.set_picture_shape((28, 8 * 28, 3))
        observation, _ = world.reset(options={"level": LEVEL})
        assert colors_in(observation["text"]) >= revealed
        assert bool(colors_in(observation["text"])) == bool(revealed)
    assert np.array_equal(view.image(world.state), memory_game.MemoryView().image(world.state))
