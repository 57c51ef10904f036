"""ARM-Thinker: both stages (equations 4 and 5) from the environment's records, and the two filters."""

import math

import pytest

from judges.episode_rewards.arm import (
    ArmAccuracySettings,
    ArmExplorationSettings,
    ArmOutcome,
    CallRecord,
    accuracy_and_format_reward,
    accuracy_reward,
    exploration_reward,
    fixed_tool_bonus_reward,
    rejection_reason,
)
from judges.scores import JudgeScore

WORKED, FAILED = CallRecord(name="zoom", succeeded=True), CallRecord(name="zoom", succeeded=False)
OUT = JudgeScore.unavailable("no route")


def outcome(accuracy=1.0, calls=(), format_correct=True):
    answer = accuracy if isinstance(accuracy, JudgeScore) else JudgeScore(value=accuracy)
    return ArmOutcome(format_correct=format_correct, answer=answer, calls=tuple(calls))


def test_calls_are_counted_from_the_records():
    counted = outcome(calls=[WORKED, FAILED, WORKED])
    assert (len(counted.calls), counted.num_successful_calls) == (3, 2)


@pytest.mark.parametrize(
    ("calls", "accuracy", "expected"),
    [
        ([], 1.0, 0.3),
        ([FAILED], 0.0, 0.4),  # 0.3 + 0.1: a call that failed is an attempt
        ([WORKED, WORKED], 1.0, 0.4),
        ([WORKED], OUT, 0.4),  # the answer does not matter, so neither does its judge
    ],
)
def test_stage_one_pays_format_and_attempt(calls, accuracy, expected):
    # ARM-Thinker, equation 4; pins 0.3 and 0.1.
    assert exploration_reward(outcome(accuracy, calls)).total == pytest.approx(expected)


@pytest.mark.parametrize(
    ("accuracy", "calls", "expected"),
    [
        (0.0, [FAILED], 0.4),  # wrong, calls: 0.3 + 0.1
        (0.0, [WORKED], 0.4),
        (0.0, [], 0.3),  # pin: equation 5 leaves this case out
        (1.0, [], 1.0),  # right, none worked: 0.3 + 0.7
        (1.0, [FAILED], 1.0),
        (1.0, [FAILED, WORKED], 1.5),  # right after one that worked: 0.3 + 0.7 + 0.5
        (0.5, [WORKED], 1.15),  # 0.3 + 0.35 + 0.5
    ],
)
def test_stage_two_pays_accuracy_and_verified_tools(accuracy, calls, expected):
    # ARM-Thinker, equation 5; pins 0.3, 0.1, 0.7, 0.5.
    reward = accuracy_reward(outcome(accuracy, calls))
    assert reward.total == pytest.approx(expected)
    assert math.fsum(reward.terms.values()) == reward.total


@pytest.mark.parametrize("reward", [exploration_reward, accuracy_reward])
@pytest.mark.parametrize("accuracy", [1.0, OUT])
def test_a_wrong_format_earns_nothing(reward, accuracy):
    # Choice: the paper only leaves R_format out.
    spoilt = reward(outcome(accuracy, [WORKED], format_correct=False))
    assert (spoilt.total, spoilt.available) == (0.0, True)


def test_unavailable_is_no_reward():
    for reward in (accuracy_reward, accuracy_and_format_reward, fixed_tool_bonus_reward):
        assert not reward(outcome(OUT, [WORKED])).available
        assert reward(outcome(OUT, [WORKED], format_correct=False)).total == 0.0, "the format decides alone"


@pytest.mark.parametrize(
    ("accuracy", "calls", "plain", "fixed", "adaptive"),
    [
        (1.0, [], 1.0, 1.0, 1.0),  # 0.3 + 0.7
        (1.0, [FAILED], 1.0, 1.5, 1.0),  # the bonus of 0.5 whatever the call gave
        (1.0, [WORKED], 1.0, 1.5, 1.5),
        (1.0, [FAILED] * 9, 1.0, 1.5, 1.0),
        (0.0, [], 0.3, 0.3, 0.3),
        (0.0, [WORKED], 0.3, 0.8, 0.4),  # and whatever the answer is
    ],
)
def test_a_fixed_bonus_pays_for_any_call(accuracy, calls, plain, fixed, adaptive):
    # ARM-Thinker, section 5.5: the three rewards of figure 4.
    played = outcome(accuracy, calls)
    rewards = [each(played) for each in (accuracy_and_format_reward, fixed_tool_bonus_reward, accuracy_reward)]
    assert [each.total for each in rewards] == pytest.approx([plain, fixed, adaptive])
    assert set(rewards[0].terms) == {"format", "accuracy"}


def test_without_the_gate_a_wrong_format_loses_its_own_term_alone():
    settings = ArmAccuracySettings(needs_format=False)
    assert accuracy_reward(outcome(1.0, [WORKED], format_correct=False), settings).total == pytest.approx(1.2)


def test_what_counts_as_right_and_as_a_call_can_be_set():
    strict = ArmAccuracySettings(right_above=0.5, min_calls=2, min_successful_calls=2)
    assert accuracy_reward(outcome(0.5, [WORKED]), strict).total == pytest.approx(0.3)
    assert accuracy_reward(outcome(0.5, [WORKED, FAILED]), strict).total == pytest.approx(0.4)
    assert accuracy_reward(outcome(0.6, [WORKED, FAILED]), strict).total == pytest.approx(0.3 + 0.42)
    assert accuracy_reward(outcome(0.6, [WORKED, WORKED]), strict).total == pytest.approx(0.3 + 0.42 + 0.5)


def test_weights_are_arguments():
    weights = ArmAccuracySettings(format_weight=1.0, attempt_weight=2.0, accuracy_weight=4.0, success_weight=8.0)
    assert accuracy_reward(outcome(1.0, [WORKED]), weights).total == 13.0
    assert accuracy_reward(outcome(0.0, [WORKED]), weights).total == 3.0
    weights = ArmExplorationSettings(format_weight=1.0, attempt_weight=2.0)
    assert exploration_reward(outcome(1.0, [WORKED]), weights).total == 3.0


@pytest.mark.parametrize(
    ("trajectory", "fault"),
    [
        (outcome(1.0, [WORKED]), None),
        (outcome(0.0, [], format_correct=False), "format"),
        (outcome(0.0, []), "accuracy"),
        (outcome(0.9, [WORKED]), "accuracy"),
        (outcome(OUT, [WORKED]), "unavailable"),
        (outcome(1.0, [FAILED]), "behaviour"),
    ],
)
def test_why_a_trajectory_is_rejected(trajectory, fault):
    # ARM-Thinker, section 3.2: format, accuracy, behaviour.
    assert rejection_reason(trajectory) == fault


def test_data_without_tools_need_no_call():
    assert rejection_reason(outcome(1.0), needs_tools=False) is None
