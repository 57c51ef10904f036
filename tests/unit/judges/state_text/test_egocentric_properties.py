"""What must hold for every search and every string; states are written by the world's own `state_text`."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.state_text.exact_judge import ExactJudge
from vlm_envs.content.homes.home import KINDS
from vlm_envs.responses.formats import WITHOUT_SYMBOLS
from vlm_envs.worlds.navigation.navigation_text import Sighting, describe, state_dict

offsets_m = st.integers(-24, 24).map(lambda steps: steps / 4)
sightings = st.builds(Sighting, st.sampled_from(sorted(KINDS)), offsets_m, offsets_m)


@st.composite
def states(draw):
    target, seen = draw(sightings), draw(st.lists(sightings, max_size=8))
    return state_dict(target, [target, *seen] if draw(st.booleans()) else seen)


def judge(representation):
    return ExactJudge("VLM/Navigation-v0", representation)


@pytest.mark.parametrize("representation", WITHOUT_SYMBOLS)
@given(state=states())
def test_the_worlds_own_text_scores_exactly_one(representation, state):
    assert judge(representation).score(describe(state, representation), state).value == 1.0


@pytest.mark.parametrize("representation", WITHOUT_SYMBOLS)
@given(state=states(), other=states(), data=st.data())
def test_the_order_of_objects_is_free(representation, state, other, data):
    shuffled = other | {"visible_objects": data.draw(st.permutations(other["visible_objects"]))}
    scores = {judge(representation).score(describe(each, representation), state).value for each in (other, shuffled)}
    assert len(scores) == 1


@given(state=states(), other=states())
def test_both_representations_score_the_same(state, other):
    # The sentence calls the target by its type; the dict says that it is the target, so that its type has to be right.
    other |= {"target_obj_type": state["target_obj_type"]}
    scores = [judge(each).score(describe(other, each), state).value for each in WITHOUT_SYMBOLS]
    assert scores[0] == pytest.approx(scores[1])


FRAGMENTS = """
    the a toaster toaster's sofa lamp floor table target it is are will move turn not no but and , . ; : ahead left
    right behind back of from me visible: to side in front away slightly 2.59 m 1e999 nan -inf 0.5 cm { } [ ] ( ) ' "
    target_obj_type: target_direction_to_player: target_distance_to_player= visible_objects: type: direction: distance:
"""
fragments = st.sampled_from([*FRAGMENTS.split(), "\n", "99999999999999999999999999 m"])


@pytest.mark.parametrize("representation", WITHOUT_SYMBOLS)
@given(state=states(), text=st.text() | st.lists(fragments, max_size=80).map(" ".join))
def test_any_string_gets_a_score_between_zero_and_one(representation, state, text):
    result = judge(representation).score(text, state)
    assert 0.0 <= result.value <= 1.0
    assert all(0.0 <= part <= 1.0 for part in result.per_category.values())
    assert result.per_category.keys() == {"target_direction", "target_distance", "visible_objects"}


@pytest.mark.parametrize("representation", WITHOUT_SYMBOLS)
@pytest.mark.parametrize(
    "unit",
    ["a", " ", "{", "1", "1.", "-", "lamp", "lamp left ", "left of ", "visible ", "visible:",
     "type: lamp, direction: left ", "the lamp is to the left and ", "floor ", "two ", "not ", ","],
)  # fmt: skip
def test_a_wall_of_text_is_judged_in_bounded_time(representation, unit):
    state = state_dict(Sighting("Toaster", 1.0, 0.0), [Sighting(kind, 1.0, -2.0) for kind in sorted(KINDS)])
    start = time.process_time()
    judge(representation).score(unit * (300_000 // len(unit)), state)
    assert time.process_time() - start < 5.0  # linear: well below 1 s; quadratic: minutes
