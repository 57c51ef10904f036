"""Named reward terms: which text meets which state, when nothing is paid, and what one that is unavailable does."""

import math
from dataclasses import replace

import pytest

from judges.scores import JudgeScore
from judges.turn_rewards import RepetitionTerm, exact_judge, grounding_reward, worldmodeling_reward
from tests.unit.judges.awaited import shape
from tests.unit.judges.episodes import lake, with_state
from vlm_envs.trajectory import PaidTerm, world_terms

OBSERVED = "the target is at the same row and to the right of the player."
FORESEEN = "the target is below and to the right of the player."
LAKE = lake(OBSERVED, FORESEEN)
TERMS = (grounding_reward(), worldmodeling_reward())


def test_observation_meets_the_state_and_prediction_the_next_state():
    ((shaped,),) = shape([LAKE], TERMS)
    assert shaped.rewards == {"grounding": 0.5, "worldmodeling": 0.5}
    assert shaped.total == 1.0
    # Exchanged texts have one axis of two wrong, which cancels the right one; silence on holes is right, 0.3.
    ((shaped,),) = shape([lake(FORESEEN, OBSERVED)], TERMS)
    assert shaped.rewards == pytest.approx({"grounding": 0.5 * 0.3, "worldmodeling": 0.5 * 0.3})


def test_judges_append_their_terms_to_those_of_the_world():
    world = world_terms({"step": -0.25, "format": 0.5})
    episode = replace(LAKE, turns=(replace(LAKE.turns[0], reward=0.25, reward_terms=world),))
    ((shaped,),) = shape([episode], (grounding_reward(weight=2.0), RepetitionTerm()))
    assert shaped.terms == (
        *(PaidTerm(name="step", value=-0.25, source="env"), PaidTerm(name="format", value=0.5, source="format")),
        PaidTerm(name="grounding", value=2.0, source="judge:exact", weight=2.0),
        PaidTerm(name="repetition", value=0.0, source="judge:exact"),
    )
    assert shaped.total == sum(term.value for term in shaped.terms) == 2.25
    assert (shaped.turn.reward, shaped.turn.reward_terms) == (0.25, world)


def test_weights_scale_the_score():
    ((shaped,),) = shape([LAKE], (grounding_reward(weight=0.2), worldmodeling_reward(weight=2.0)))
    assert shaped.rewards == {"grounding": 0.2, "worldmodeling": 2.0}


def test_a_wrong_format_earns_nothing_and_is_not_masked():
    ((shaped,),) = shape([lake(OBSERVED, FORESEEN, format_correct=False)], TERMS)
    assert (shaped.rewards, shaped.available) == ({"grounding": 0.0, "worldmodeling": 0.0}, True)


def test_a_strategy_without_prediction_earns_nothing_for_it():
    ((shaped,),) = shape([lake(OBSERVED, None)], TERMS)
    assert (shaped.rewards, shaped.available) == ({"grounding": 0.5, "worldmodeling": 0.0}, True)


class _Unreachable:
    def score(self, text, state):
        return JudgeScore.unavailable("endpoint timed out")


def test_unavailable_masks_its_turn_and_no_other():
    (lakes,), (sokoban,) = shape(
        [LAKE, lake(OBSERVED, FORESEEN, env_id="VLM/Sokoban-v0")],
        (*TERMS, RepetitionTerm()),
        judge_for=lambda env_id, representation: (
            exact_judge(env_id, representation) if "Lake" in env_id else _Unreachable()
        ),
    )
    assert (lakes.available, lakes.total) == (True, 1.0)
    assert (sokoban.available, sokoban.total) == (False, 0.0)
    assert sokoban.scores["observation"].reason == "endpoint timed out"


def test_unavailable_is_not_a_zero():
    assert math.isnan(JudgeScore.unavailable("down").value)


class _Counting:
    def __init__(self):
        self.texts = []

    def score(self, text, state):
        self.texts.append(text)
        return JudgeScore(value=0.5)


def test_each_section_is_judged_once_and_only_if_a_term_reads_it():
    judge = _Counting()
    shape([LAKE], (*TERMS, RepetitionTerm()), judge_for=lambda env_id, representation: judge)
    assert sorted(judge.texts) == sorted([OBSERVED, FORESEEN])
    judge = _Counting()
    shape([LAKE], [grounding_reward()], judge_for=lambda env_id, representation: judge)
    assert judge.texts == [OBSERVED]


def test_repetition_adds_both_sections_and_keeps_worlds_apart():
    wrong = "the target is at the same place as the player."
    episode, symbolic = lake(wrong, wrong), lake(wrong, wrong, representation="symbolic")
    term = RepetitionTerm()
    assert [shaped.total for (shaped,) in shape([episode, episode], [term])] == [0.0, 0.0]
    assert shape([episode], [term])[0][0].rewards == {"repetition": -0.2}
    assert shape([symbolic], [term])[0][0].rewards == {"repetition": 0.0}
    # A prediction never seen as a prediction is new, though observations used the same words.
    restored = RepetitionTerm()
    restored.load_state_dict(term.state_dict())
    observed_only = lake(wrong, "the target is above and to the left of the player.")
    assert shape([observed_only], [restored])[0][0].rewards == {"repetition": -0.1}


def test_repeating_what_is_right_costs_nothing():
    term = RepetitionTerm()
    for _ in range(3):
        assert shape([LAKE] * 4, [term])[0][0].rewards == {"repetition": 0.0}


def sokoban(player, box, target):
    return {"player_position": player, "box_positions": [box], "target_positions": [target]}


def penalties(text, state, *, judge_for=exact_judge, env_id="VLM/Sokoban-v0", uses=4):
    """The repetition rewards of one observation written again and again."""
    term = RepetitionTerm()
    episode = with_state(lake(text, None, env_id=env_id), **state)
    episode = replace(episode, turns=tuple(replace(turn, state=state) for turn in episode.turns))
    return [shape([episode], [term], judge_for)[0][0].rewards["repetition"] for _ in range(uses)]


# Sentences of VAGEN's appendix, each true of its state. They leave out what F1 asks for as well, such as the aligned
# axis: F1 is 0.533 for all of them, precision is 1.
TRUE_BUT_INCOMPLETE = [
    ("The player is below the box, and the box is below the target.", sokoban((4, 2), (3, 2), (1, 2))),
    (
        "The player is to the right of the box, and the box is to the right of the target.",
        sokoban((2, 4), (2, 3), (2, 1)),
    ),
    ("The box is above the player and the target is to the left of the box", sokoban((5, 2), (4, 3), (3, 2))),
    (
        "The player will be to the left of the box, and the box will be to the right of the target.",
        sokoban((5, 2), (4, 3), (3, 1)),
    ),
    ("The box is below the target.", sokoban((4, 2), (3, 2), (1, 2))),
]


@pytest.mark.parametrize(("text", "state"), TRUE_BUT_INCOMPLETE)
def test_repeating_true_text_costs_nothing_however_much_it_leaves_out(text, state):
    assert exact_judge("VLM/Sokoban-v0", "natural_language").score(text, state).value < 1.0
    assert penalties(text, state) == [0.0] * 4


@pytest.mark.parametrize(
    "text",
    [
        "The player is above the box, and the box is above the target.",
        "The player is below the box, and the box is above the target.",
        "The player is below the box. The player is above the box.",
        "It is a nice day.",
    ],
)
def test_repeating_text_that_is_false_in_half_of_its_facts_or_states_none_costs_a_tenth(text):
    assert penalties(text, sokoban((4, 2), (3, 2), (1, 2))) == [0.0, 0.0, -0.1, -0.1]


@pytest.mark.parametrize(("verdict", "expected"), [(1.0, [0.0] * 4), (0.0, [0.0, 0.0, -0.1, -0.1])])
def test_a_judge_that_counts_no_facts_is_taken_at_its_verdict(verdict, expected):
    class Direct:
        def score(self, text, state):
            return JudgeScore(value=verdict)

    state = sokoban((4, 2), (3, 2), (1, 2))
    assert penalties("The box is there.", state, judge_for=lambda env_id, representation: Direct()) == expected


def test_a_judge_that_could_not_answer_penalizes_nothing():
    state = sokoban((4, 2), (3, 2), (1, 2))
    assert penalties("The box.", state, judge_for=lambda env_id, representation: _Unreachable()) == [0.0] * 4


def test_terms_need_distinct_names():
    with pytest.raises(ValueError, match="distinct"):
        shape([LAKE], [grounding_reward(), grounding_reward()])
    ((shaped,),) = shape([LAKE], [grounding_reward(), grounding_reward(name="grounding_again")])
    assert shaped.total == 1.0


def test_an_empty_batch_is_an_empty_result():
    assert shape([], (*TERMS, RepetitionTerm())) == []
