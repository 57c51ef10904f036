"""How primitives are written and read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.vlm_envs.worlds.primitive_skill.skill_tables import TABLES
from vlm_envs.worlds.primitive_skill.skill_planner import GRAMMAR, Primitive, Skill, parse_primitive
from vlm_envs.worlds.primitive_skill.skill_state import WORKSPACES_MM, instruction

POINTS = st.tuples(*[st.integers(-999_999, 999_999)] * 3)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pick(62,-55,20)", Primitive(Skill.PICK, (62, -55, 20))),
        ("Place ( 75, 33 , 50 )", Primitive(Skill.PLACE, (75, 33, 50))),
        ("pick(-16.0, 55.00, 20)", Primitive(Skill.PICK, (-16, 55, 20))),
        ("push(1,2,3,-4,-5,6)", Primitive(Skill.PUSH, (1, 2, 3), (-4, -5, 6))),
    ],
)
def test_primitives_are_read(text: str, expected: Primitive) -> None:
    assert parse_primitive(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "pick",
        "pick()",
        "pick(1,2)",
        "pick(1,2,3,4)",
        "push(1,2,3)",
        "pick(1.5,2,3)",
        "pick(1.05,2,3)",
        "pick(1.,2,3)",
        "pick(1,2,3",
        "grasp(1,2,3)",
        "pick(١,2,3)",
        "pick(9999999,0,0)",
        "pick(1,2,3) now",
    ],
)
def test_all_else_is_refused(text: str) -> None:
    assert parse_primitive(text) is None


@given(st.sampled_from([Skill.PICK, Skill.PLACE]), POINTS)
def test_what_is_written_is_read_back(skill: Skill, point: tuple[int, int, int]) -> None:
    primitive = Primitive(skill, point)
    assert parse_primitive(str(primitive)) == primitive


def test_an_answer_is_split_at_bars() -> None:
    assert GRAMMAR.split("pick(62,-55,20)|place(75,33,50)") == ["pick(62,-55,20)", "place(75,33,50)"]


# The limits that VAGEN prints in Appendix B: for the align task, and for the drawer
TABLE = ((-100, 150), (-200, 200), (10, 200))
DRAWER = ((-500, -100), (-600, 200), (10, 650))


@pytest.mark.parametrize(("task", "limits"), [("place", TABLE), ("stack", TABLE), ("align", TABLE), ("drawer", DRAWER)])
def test_each_task_has_the_papers_workspace_and_its_borders(task: str, limits: tuple[tuple[int, int], ...]) -> None:
    assert WORKSPACES_MM[task] == limits
    low, high = zip(*limits, strict=True)
    for axis in range(3):
        for border, step in ((low, -1), (high, 1)):
            inside = [*map(int, border)]
            outside = [*inside]
            outside[axis] += step
            assert Primitive(Skill.PUSH, (*low,), (*inside,)).is_within(task)
            assert not Primitive(Skill.PUSH, (*low,), (*outside,)).is_within(task)
            assert not Primitive(Skill.PICK, (*outside,)).is_within(task)


@pytest.mark.parametrize(
    ("task", "text"),
    [
        # What the paper prints: the examples of its prompts, and the answer to the drawer's
        ("stack", "pick(62,-55,20)"),
        ("stack", "place(75,33,50)"),
        ("stack", "pick(-44,100,20)"),
        ("stack", "place(100,-43,50)"),
        ("align", "pick(129,-119,20)"),
        ("drawer", "pick(-127,192,36)"),
        ("drawer", "place(-500,-537,500)"),
        ("drawer", "push(-500,-537,500,-500,-537,650)"),
    ],
)
def test_the_papers_own_answers_are_within_its_limits(task: str, text: str) -> None:
    primitive = parse_primitive(text)
    assert primitive is not None and primitive.is_within(task)


@pytest.mark.parametrize("task", WORKSPACES_MM)
def test_the_prompt_tells_the_limits_of_its_task(task: str) -> None:
    told = instruction(TABLES[task])
    limits = ", ".join(f"{axis} {span}" for axis, span in zip("xyz", WORKSPACES_MM[task], strict=True))
    assert f"Workspace limits: {limits}." in told
