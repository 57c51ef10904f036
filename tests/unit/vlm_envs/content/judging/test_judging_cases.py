"""Cases: what they are made of, and what their digest names."""

import pytest

pytest.importorskip("pydantic", reason="needs pydantic: pip install '.[tools]'")

from vlm_envs.content.judging.judging_cases import (
    Candidate,
    Case,
    Flaw,
    category_of,
    is_length_matched,
    judging_sample,
    track_of,
)
from vlm_envs.errors import ConfigError
from vlm_envs.responses.answers import score_answer

RIGHT = Candidate(text="There are three mugs.")
WRONG = Candidate(text="There are seven mugs.", flaw=Flaw(kind="wrong_count", place="seven", truth="There are three."))


def case(*candidates: Candidate, track: str = "fine_grained") -> Case:
    return Case(track=track, request="How many mugs are there?", candidates=candidates, facts="There are three mugs.")


def test_the_order_of_candidates_does_not_change_the_digest():
    assert case(RIGHT, WRONG).digest == case(WRONG, RIGHT).digest
    assert case(RIGHT, WRONG).digest != case(RIGHT).digest
    assert case(RIGHT, WRONG).digest != case(RIGHT, WRONG, track="document").digest


def test_reordering_moves_the_right_one():
    turned = case(RIGHT, WRONG).reordered([1, 0])
    assert turned.candidates == (WRONG, RIGHT)
    assert (case(RIGHT, WRONG).right, turned.right) == (0, 1)
    assert turned.flaw == WRONG.flaw


def test_cases_without_one_right_answer_are_refused():
    with pytest.raises(ConfigError, match="got 2"):
        case(RIGHT, RIGHT)
    with pytest.raises(ConfigError, match="got 0"):
        case(WRONG, WRONG)
    with pytest.raises(ConfigError, match="1, 2 or 4; got 3"):
        case(RIGHT, WRONG, WRONG)


def test_lengths_match_below_a_tenth():
    assert is_length_matched(["a" * 100, "b" * 109])
    assert not is_length_matched(["a" * 100, "b" * 110])


def test_a_pair_asks_for_a_number():
    sample = judging_sample(case(WRONG, RIGHT), "id")
    assert sample.key.answers == ("2",)
    assert all(score_answer(said, sample.key) == 1.0 for said in ("2", "resp_2", "resp 2", "response 2"))
    assert sample.texts == (("resp_1", WRONG.text), ("resp_2", RIGHT.text))
    assert "resp_1 and resp_2" in sample.question
    assert "How many mugs are there?" in sample.question
    assert sample.category == "fine_grained_wrong_count"
    assert sample.facts == ("There are three mugs. resp_1 is wrong about “seven”: There are three. resp_2 is right.")


@pytest.mark.parametrize(
    ("candidate", "answer", "category"), [(RIGHT, "True", "right"), (WRONG, "False", "wrong_count")]
)
def test_a_single_response_is_true_or_false(candidate, answer, category):
    sample = judging_sample(case(candidate), "id")
    assert sample.key.answers == (answer,)
    assert sample.category == f"fine_grained_{category}"
    assert track_of(sample.category) == "fine_grained"


def test_names_of_checks_become_categories():
    flaw = Flaw(kind="constraint_violated:check_x", place="Be short.", truth="9 words; asked for 3.")
    found = category_of(case(Candidate(text="t", flaw=flaw), track="instruction_following"))
    assert found == "instruction_following_constraint_violated_check_x"
    assert track_of("vl_rewardbench_general") == "vl_rewardbench_general"
