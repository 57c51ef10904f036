"""What must hold for every table and every string; states are written by the world's own `state_text`."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.state_text.exact_judge import ExactJudge
from vlm_envs.responses.formats import WITHOUT_SYMBOLS
from vlm_envs.worlds.primitive_skill.skill_state import (
    COLORS,
    Cube,
    Drawer,
    PrimitiveSkillState,
    Target,
    describe,
    hint,
    structured,
)

coordinates_m = st.integers(-200, 200).map(lambda millimetres: millimetres / 1000)
coordinates_mm = st.integers(-200, 200)


@st.composite
def tables(draw):
    colors = draw(st.lists(st.sampled_from(COLORS), min_size=1, max_size=3, unique=True))
    places = [draw(st.tuples(coordinates_m, coordinates_m, coordinates_m)) for _ in colors]
    sides = draw(st.lists(st.sampled_from(("left", "right")), max_size=2, unique=True))
    is_drawer = draw(st.booleans())
    return PrimitiveSkillState(
        task="place",
        cubes=tuple(
            Cube(color=color, position=place, rotation=(1.0, 0.0, 0.0, 0.0))
            for color, place in zip(colors, places, strict=True)
        ),
        targets=tuple(Target(side=side, position_mm=draw(st.tuples(coordinates_mm, coordinates_mm))) for side in sides),
        drawer=Drawer(y_mm=draw(coordinates_mm), open_m=draw(coordinates_m)) if is_drawer else None,
        goals=(),
        held=draw(st.none() | st.integers(0, len(colors) - 1)),
    )


def judge(representation):
    return ExactJudge("VLM/PrimitiveSkill-v0", representation)


@pytest.mark.parametrize("representation", WITHOUT_SYMBOLS)
@given(table=tables())
def test_the_worlds_own_text_scores_exactly_one(representation, table):
    assert judge(representation).score(describe(table, representation), structured(table)).value == 1.0


@pytest.mark.parametrize("representation", WITHOUT_SYMBOLS)
@given(table=tables(), other=tables(), data=st.data())
def test_the_order_of_entries_is_free(representation, table, other, data):
    text = describe(other, representation)
    ending = "." if representation == "natural_language" else "}"
    separator = ". " if representation == "natural_language" else ", "
    keys = data.draw(st.permutations(sorted(structured(other).items())))
    if representation == "structured":
        shuffled = "{" + ", ".join(f"{key}: {value}" for key, value in keys) + "}"
    else:
        shuffled = separator.join(data.draw(st.permutations(text.removesuffix(ending).split(separator)))) + ending
    truth = structured(table)
    assert judge(representation).score(shuffled, truth).value == judge(representation).score(text, truth).value


@given(table=tables(), other=tables())
def test_both_representations_score_the_same(table, other):
    scores = [judge(each).score(describe(other, each), structured(table)).value for each in WITHOUT_SYMBOLS]
    assert scores[0] == pytest.approx(scores[1])


@pytest.mark.parametrize("representation", WITHOUT_SYMBOLS)
@given(table=tables())
def test_copying_the_hint_earns_no_cube(representation, table):
    assert judge(representation).score(hint(table), structured(table)).per_category["cubes"] == 0.0


FRAGMENTS = """
    the a red green cube cubes block left right target drawer handle inside it is are at by will place pick not isn't no
    and or , . ; : open closed 120 mm nan inf (83,-102,20) (nan,inf,1e999) [1,2,3] ( ) [ ] { } ' " 1.5 m cm
    red_cube_position: left_target_position= drawer_open_mm: cube: held_cube: red_cube
"""
fragments = st.sampled_from([*FRAGMENTS.split(), "\n", "(" + "9" * 400 + ", 0, 0)"])


@pytest.mark.parametrize("representation", WITHOUT_SYMBOLS)
@given(table=tables(), text=st.text() | st.lists(fragments, max_size=60).map(" ".join))
def test_any_string_gets_a_score_between_zero_and_one(representation, table, text):
    result = judge(representation).score(text, structured(table))
    assert 0.0 <= result.value <= 1.0
    assert all(0.0 <= part <= 1.0 for part in result.per_category.values())
    assert result.per_category.keys() == {"cubes", "others"}


@pytest.mark.parametrize("representation", WITHOUT_SYMBOLS)
@pytest.mark.parametrize(
    "unit",
    ["a", " ", "(", "[(", "(1", "1", "1.", "(1, 2, 3)", "red ", "red cube ", "red and ", "cube: ", "not ", "it ",
     "the red cube is at (1, 2, 3) and ", "place ", "drawer ", "red_cube_position: (1, 2, 3), "],
)  # fmt: skip
def test_a_wall_of_text_is_judged_in_bounded_time(representation, unit):
    state = {"red_cube_position": (83, -102, 20), "left_target_position": (80, -100, 0), "drawer_open_mm": 12}
    start = time.process_time()
    judge(representation).score(unit * (300_000 // len(unit)), state)
    assert time.process_time() - start < 5.0  # linear: well below 1 s; quadratic: minutes
