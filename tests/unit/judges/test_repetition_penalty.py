"""Boundaries of the repetition penalty: frequent and wrong, not one of the two."""

import json
import pickle

import pytest

from judges.repetition_penalty import RepetitionConfig, RepetitionPenalty


def penalty_after(history, **config):
    penalty = RepetitionPenalty(RepetitionConfig(**config))
    penalty.penalize(history, [0.0] * len(history))
    return penalty


def test_the_papers_values_are_the_defaults():
    config = RepetitionConfig()
    assert (config.precision_threshold, config.penalty) == (0.7, -0.1)


@pytest.mark.parametrize(
    ("precision", "expected"),
    [(0.0, -0.1), (0.6999, -0.1), (0.7, 0.0), (0.1 + 0.6, 0.0), (1.0, 0.0), (float("nan"), 0.0)],
)
def test_seven_tenths_is_not_below_seven_tenths(precision, expected):
    # 0.1 + 0.6 is 0.7 less one rounding error.
    assert penalty_after(["same", "same"]).penalize(["same"], [precision]) == [expected]


def test_a_wrong_text_that_is_new_costs_nothing():
    assert penalty_after(["same", "same"]).penalize(["other"], [0.0]) == [0.0]


def test_case_and_spacing_do_not_make_a_text_new():
    assert penalty_after(["The box", "The box"]).penalize([" the\n BOX "], [0.0]) == [-0.1]


def test_only_the_top_k_are_frequent_and_ties_with_the_last_of_them_count():
    history = ["a"] * 5 + ["b"] * 4 + ["c"] * 4 + ["d"] * 3
    penalty = penalty_after(history, top_k=2)
    assert penalty.penalize(["a", "b", "c", "d"], [0.0] * 4) == [-0.1, -0.1, -0.1, 0.0]


def test_a_batch_is_judged_against_the_history_before_it():
    penalty = RepetitionPenalty()
    assert penalty.penalize(["same"] * 20, [0.0] * 20) == [0.0] * 20
    assert penalty.penalize(["same"], [0.0]) == [-0.1]


def test_the_order_within_a_batch_changes_nothing():
    batch = ["a", "b", "a", "c", "d", "a", "b"]
    forwards, backwards = (penalty_after(["a", "a"], window=6) for _ in range(2))
    rewards = forwards.penalize(batch, [0.0] * 7)
    assert backwards.penalize(batch[::-1], [0.0] * 7) == rewards[::-1]
    assert forwards.state_dict() == backwards.state_dict()


def test_the_window_forgets():
    penalty = penalty_after(["old", "old"], window=4)
    penalty.penalize(["w", "x", "y"], [0.0] * 3)
    assert penalty.penalize(["old"], [0.0]) == [0.0]  # One of its two uses is left.
    assert len(penalty.state_dict()["history"]) == 4


def test_a_checkpoint_continues_exactly():
    penalty = penalty_after(["a", "a", "b"], window=5)
    restored = RepetitionPenalty(penalty.config)
    restored.load_state_dict(json.loads(json.dumps(penalty.state_dict())))
    pickled = pickle.loads(pickle.dumps(penalty))
    for batch in (["a", "b", "c"], ["b", "b", "c"], ["a", "c"]):
        rewards = penalty.penalize(batch, [0.0] * len(batch))
        assert restored.penalize(batch, [0.0] * len(batch)) == rewards
        assert pickled.penalize(batch, [0.0] * len(batch)) == rewards


@pytest.mark.parametrize("wrong", [{"top_k": 0}, {"window": 0}, {"precision_threshold": 1.5}, {"penalty": 0.1}])
def test_inert_or_rewarding_settings_are_refused(wrong):
    with pytest.raises(ValueError, match="must"):
        RepetitionConfig(**wrong)


def test_one_precision_per_text():
    with pytest.raises(ValueError, match="shorter"):
        RepetitionPenalty().penalize(["a", "b"], [0.0])


def test_lone_surrogates_are_text_too():
    assert RepetitionPenalty().penalize(["\ud800"], [0.0]) == [0.0]
