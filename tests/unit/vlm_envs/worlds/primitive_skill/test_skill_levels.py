"""Levels as JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.unit.vlm_envs.worlds.primitive_skill.skill_tables import PLACE, TABLES, holding
from vlm_envs.errors import LevelError
from vlm_envs.worlds.primitive_skill.primitive_skill_world import PrimitiveSkillDynamics
from vlm_envs.worlds.primitive_skill.sapien_engine import EngineHandle
from vlm_envs.worlds.primitive_skill.skill_levels import level_key, level_text, parse_level


@pytest.mark.parametrize("task", TABLES)
def test_levels_round_trip(task: str) -> None:
    state = replace(holding(TABLES[task], 0), highest_stage=1, outcome="pick(0,0,20) closed on nothing")
    assert parse_level(level_text(state)) == state
    assert parse_level(level_text(TABLES[task])) == TABLES[task]


def test_the_wording_is_no_content() -> None:
    assert level_key(PLACE) == level_key(replace(PLACE, phrasing=2))
    assert level_text(PLACE) != level_text(replace(PLACE, phrasing=2))


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("task", "juggle", "a task out of place"),
        ("cubes", [], "1 to 3 cubes"),
        ("targets", [], "a left and a right target"),
        ("drawer", {"y_mm": 0, "open_m": 0.0}, "in its task only"),
        ("goals", [], "goals of its task"),
        ("goals", [{"kind": "on_target", "cube": 7, "where": 0}] * 2, "cubes and places that exist"),
        ("goals", [{"kind": "on_target", "cube": 0, "where": 0}] * 2, "one per cube"),
        ("phrasing", 99, "a phrasing, a highest stage"),
        ("held", 5, "a held cube that exist"),
        ("qpos", [0.0], "expected"),
        ("goals", 3, "a JSON object"),
    ],
)
def test_what_is_wrong_is_said(field: str, value: object, expected: str) -> None:
    level = json.loads(level_text(PLACE)) | {field: value}
    with pytest.raises(LevelError, match=expected):
        parse_level(json.dumps(level))


@pytest.mark.parametrize("text", ["", "[]", "null", "{", "{}", '{"task": NaN}', "\ud800", "[" * 1500])
def test_no_text_raises_anything_else(text: str) -> None:
    with pytest.raises(LevelError):
        parse_level(text)


def changed(path: list[str | int], value: object, task: str = "place") -> str:
    """Returns a level of a task with one value replaced or added."""
    level = json.loads(level_text(TABLES[task]))
    place = level
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return json.dumps(level)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (changed(["cubes", 0, "position_m"], [True, False, 0.02]), "expected"),
        (changed(["cubes", 0, "position_m"], "123"), "expected"),
        (changed(["cubes", 0, "position_m"], ["1e-1", "0", "0.02"]), "expected"),
        (
            changed(["cubes", 0, "position_m"], json.loads(level_text(PLACE))["cubes"][1]["position_m"]),
            "not in each other",
        ),
        (changed(["cubes", 0, "colour"], ["red"]), "expected"),
        (changed(["cubes", 0, "weight"], 3), "expected"),
        (changed(["targets", 0, "position_mm"], [10**400, 0]), "expected"),
        (changed(["targets", 0, "position_mm"], [1.5, 0]), "expected"),
        (changed(["targets", 0, "position_mm"], "12"), "expected"),
        (changed(["targets", 0, "position_mm"], [80, 100]), "a left and a right target"),
        (changed(["goals", 1, "cube"], 1.9), "expected"),
        (changed(["goals", 1, "cube"], True), "expected"),
        (changed(["goals", 1, "where"], 0), "met together"),
        (changed(["goals", 0, "where"], 0, "stack"), "met together"),
        (changed(["goals", 0, "where"], 10**400, "align"), "expected"),
        (changed(["drawer", "open_m"], 99, "drawer"), "a drawer, open by"),
        (changed(["drawer", "open_m"], -1, "drawer"), "a drawer, open by"),
        (changed(["drawer", "y_mm"], 10**400, "drawer"), "expected"),
        (changed(["held"], 0.9), "expected"),
        (changed(["phrasing"], 0.5), "expected"),
        (changed(["outcome"], {"a": 1}), "expected"),
        (changed(["outcome"], "two\nlines"), "one printable line"),
        (changed(["outcome"], "x" * 201), "one printable line"),
        (changed(["qpos"], [100.0] * 9), "joints"),
        (changed(["colour"], "red"), "expected"),
    ],
)
def test_no_level_is_read_as_something_else(text: str, expected: str) -> None:
    with pytest.raises(LevelError, match=expected):
        parse_level(text)


@pytest.mark.parametrize("level", [3, b"{}", {"task": "place"}, ["place"]])
def test_a_level_that_is_no_text_is_explained(level: object) -> None:
    with pytest.raises(LevelError, match=f"got .* of type {type(level).__name__}"):
        parse_level(level)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "value", "task"),
    [
        (["cubes", 0, "position_m"], [0, 0, -0.5], "place"),
        (["cubes", 0, "position_m"], [0, 0, 0.5], "stack"),
        (["cubes", 0, "position_m"], [9.9, 9, 0.02], "drawer"),
        (["targets", 0, "position_mm"], [400, -100], "place"),
        (["drawer", "y_mm"], 900, "drawer"),
    ],
)
def test_a_table_that_cannot_be_solved_is_refused(path: list[str | int], value: object, task: str) -> None:
    dynamics = PrimitiveSkillDynamics(task=task, engine=EngineHandle())
    assert dynamics.load(level_text(TABLES[task])) == TABLES[task]
    with pytest.raises(LevelError, match="out of the arm's reach"):
        dynamics.load(changed(path, value, task))
