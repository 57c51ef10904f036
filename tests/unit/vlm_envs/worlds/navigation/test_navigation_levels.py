"""Level texts: what was dumped loads, and nothing hostile does."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlm_envs.errors import LevelError
from vlm_envs.worlds.navigation.navigation_levels import MAX_LEVEL_CHARS, Rules, Wanted, level_text, parse_level
from vlm_envs.worlds.navigation.navigation_world import HomeDynamics

DYNAMICS = HomeDynamics(
    Rules(num_steps=1, success_cm=100, require_visible=False, fov_degrees=100),
    Wanted(instruction_set="base", min_solution_length=5, max_solution_length=20),
)
STATE = DYNAMICS.generate(np.random.default_rng(0), "train")
LEVEL = json.loads(level_text(STATE))


def changed(path: list, value: object) -> str:
    """Returns the level with one value replaced."""
    level = json.loads(json.dumps(LEVEL))
    place = level
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return json.dumps(level)


def test_a_level_is_short_and_loads_again() -> None:
    assert parse_level(level_text(STATE)) == STATE
    assert len(level_text(STATE)) < MAX_LEVEL_CHARS / 10


@pytest.mark.parametrize(
    ("level", "message"),
    [
        ("", "JSON text, as dump"),
        ("[" * 1500, "JSON text, as dump"),
        ("1" * 30_000, "JSON"),
        ("x" * (MAX_LEVEL_CHARS + 1), "at most 60000 characters"),
        ("null", "exactly the keys"),
        (changed(["extra"], 1), "exactly the keys"),
        (changed(["home"], []), "exactly the keys 'rooms'"),
        (changed(["home", "rooms"], []), "at least one room"),
        (changed(["home", "rooms", 0, 0], "castle"), "kind must be one of"),
        (changed(["home", "rooms", 0, 3], 10**9), "from 0 to 100"),
        (changed(["home", "rooms", 0, 3], 10**400), "a huge number"),
        (changed(["home", "rooms", 0, 3], float("nan")), "integer"),
        (changed(["home", "rooms", 0, 3], True), "integer"),
        (changed(["home", "rooms", 0], [1]), r"A room must be .*\[kind"),
        (changed(["home", "rooms", 0, 1], LEVEL["home"]["rooms"][0][3]), "two lattice steps"),
        (changed(["home", "rooms"], [LEVEL["home"]["rooms"][0]] * 12), "overlap"),
        (changed(["home", "rooms", 0, 4], LEVEL["home"]["rooms"][0][4] + 1), "overlap"),
        (changed(["home", "doors", 0, 1], 99), "must lie in a wall"),
        (changed(["home", "doors", 0, 0], 1), "true or false"),
        (changed(["home", "things", 0, 0], "Dragon"), "kind must be one of"),
        (changed(["home", "things", 0, 5], {}), "color must be one of"),
        (changed(["home", "things"], [LEVEL["home"]["things"][0]] * 251), "at most 250"),
        (changed(["home", "things"], []), "target must be an integer"),
        (changed(["target"], len(LEVEL["home"]["things"])), "target must be"),
        (changed(["pose"], [1, 1]), r"\[x, y, heading, tilt\]"),
        (changed(["pose", 2], 4), "heading"),
        (changed(["pose", 3], 3), "tilt"),
        (changed(["instruction"], "two\nlines"), "one line"),
        (changed(["instruction"], "\u202e"), "printable"),
        (changed(["instruction"], "x" * 601), "600"),
        (changed(["pose"], [0, 0, 0, 0]), "cannot stand"),
        (changed(["pose"], [900, 900, 0, 0]), "cannot stand"),
    ],
)
def test_a_bad_level_is_explained(level: str, message: str) -> None:
    with pytest.raises(LevelError, match=message):
        DYNAMICS.load(level)


def test_a_level_that_is_over_or_unsolvable_is_refused() -> None:
    path = DYNAMICS.plan(STATE)
    state = STATE
    for action in path:
        state, _ = DYNAMICS.step(state, action, np.random.default_rng())
    with pytest.raises(LevelError, match="must not start where"):
        DYNAMICS.load(level_text(state))
    x, y = STATE.pose.x * 25, STATE.pose.y * 25
    walls = [
        ["Wardrobe", x + east, y + north, 0, turn, "oak"]
        for east, north, turn in ((0, 60, 0), (0, -60, 0), (60, 0, 1), (-60, 0, 1))
        if x + east >= 0 and y + north >= 0
    ]
    target = LEVEL["home"]["things"][STATE.target]
    with pytest.raises(LevelError, match=r"cannot be reached|cannot stand"):
        DYNAMICS.load(json.dumps({**LEVEL, "home": {**LEVEL["home"], "things": [target, *walls]}, "target": 0}))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)
paths = st.sampled_from(
    [["home"], ["pose"], ["target"], ["instruction"], ["home", "rooms"], ["home", "doors"], ["home", "things"]]
    + [["home", kind, 0, index] for kind, size in (("rooms", 7), ("doors", 4), ("things", 6)) for index in range(size)]
)


@given(paths, json_values)
def test_whatever_a_level_holds_it_loads_or_raises_a_level_error(path: list, value: object) -> None:
    try:
        state = DYNAMICS.load(changed(path, value))
    except LevelError:
        return
    assert DYNAMICS.load(DYNAMICS.dump(state)) == state


@given(st.text())
def test_any_text_loads_or_raises_a_level_error(level: str) -> None:
    with pytest.raises(LevelError):
        DYNAMICS.load(level)
