"""REINFORCE++ against hand-computed numbers, in float64, token by token."""

from __future__ import annotations

import math

import pytest
import torch

from tests.unit.training.algorithms.siblings import GENERATED, TURNS, outputs, rows
from training.algorithms.reinforce_plus_plus import ReinforcePlusPlus, reinforce_plus_plus

REWARDS = [[1.0, 2.0], [0.0, 1.0]]
FOUR = [*REWARDS, [4.0, 0.0], [6.0, 0.0]]
PENALTIES = torch.tensor([[9.0, -0.5, -0.25, 9.0, -1.0], [9.0, -0.5, 9.0, 0.0, -0.5]])  # 9: nothing generated


def whitened(values: list[float]) -> list[float]:
    mean = math.fsum(values) / len(values)
    std = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
    return [(value - mean) / std for value in values]


def test_golden():
    batch = rows(REWARDS, [0, 0])
    advantages_BT = ReinforcePlusPlus().credit(batch, outputs(batch, PENALTIES)).advantages_BT
    # Row 0: 2 - 1 at its last token; then 1 - 0.25 more at the end of turn 0; then -0.5.  Row 1 likewise.
    to_go = [1.25, 1.75, 1.0, 0.0, 0.5, 0.5]
    assert advantages_BT[GENERATED[:2]].tolist() == pytest.approx(whitened(to_go), abs=1e-6)
    # Mean 5/6; squares of the deviations sum to 47/24, so the sample deviation is sqrt(47/120) = 0.625833
    pinned = [0.665780, 1.464715, 0.266312, -1.331559, -0.532624, -0.532624]
    assert advantages_BT[GENERATED[:2]].tolist() == pytest.approx(pinned, abs=1e-5)
    assert not advantages_BT[~GENERATED[:2]].any()


def test_golden_with_a_baseline():
    batch = rows([[1.0, 2.0], [0.0, 1.0], [4.0, 0.0], [6.0, 0.0], [99.0, 0.0]], [0, 0, 3, 3, 5])
    penalties_BT = torch.zeros(5, 5)
    penalties_BT[0] = PENALTIES[0]
    advantages_BT = ReinforcePlusPlus(baseline=True).credit(batch, outputs(batch, penalties_BT)).advantages_BT
    # Returns 3, 1 less 2, and 4, 6 less 5; row 0 less its penalties to go.  The last row is alone.
    values = [1 - 1.75, 1 - 1.25, 1 - 1.0, -1.0, -1.0, -1.0, -1.0, 1.0, 1.0, 1.0]
    assert advantages_BT[:4][GENERATED[:4]].tolist() == pytest.approx(whitened(values), abs=1e-6)
    assert not advantages_BT[4].any()


@pytest.mark.parametrize("baseline", [False, True])
def test_statistics_run_over_the_tokens_that_are_learnt_from(baseline):
    trainable_B = torch.tensor([True, True, True, True, False])
    batch = rows([*FOUR, [-99.0, 9.0]], [0, 0, 3, 3, 3], trainable_B=trainable_B)
    without = rows(FOUR, [0, 0, 3, 3])
    algorithm = ReinforcePlusPlus(baseline=baseline)
    advantages_BT = algorithm.credit(batch, outputs(batch)).advantages_BT
    torch.testing.assert_close(advantages_BT[:4], algorithm.credit(without, outputs(without)).advantages_BT)
    assert not advantages_BT[4].any()
    learnt = advantages_BT[batch.response_mask_BT]
    assert float(learnt.mean()) == pytest.approx(0.0, abs=1e-6)
    assert float(learnt.std()) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("baseline", [False, True])
def test_only_siblings_are_learnt_from_with_a_baseline(baseline):
    batch = rows(FOUR, [0, 0, 3, 4])
    assert ReinforcePlusPlus(baseline=baseline).keep(batch).trainable_B.tolist() == [True, True, *[not baseline] * 2]


@pytest.mark.parametrize("baseline", [False, True])
def test_the_order_of_rows_means_nothing(baseline):
    order, algorithm = [1, 3, 0, 2], ReinforcePlusPlus(baseline=baseline)
    batch = rows(FOUR, [0, 0, 3, 3])
    moved = batch.select(order)
    ours, theirs = (algorithm.credit(each, outputs(each)).advantages_BT for each in (moved, batch))
    torch.testing.assert_close(ours, theirs[order])


def test_flat_groups_and_a_flat_batch_teach_nothing():
    flat = rows([[0.1, 0.0]] * 5, [0, 0, 0, 3, 3])
    assert not ReinforcePlusPlus(baseline=True).credit(flat, outputs(flat)).advantages_BT.any()
    last_turn_only = rows([[0.1, 0.0]], [0])
    one_turn = torch.tensor([[-1, 0, 0, 0, -1]])
    turns = {"turn_rewards_BK": last_turn_only.turn_rewards_BK, "token_rewards_BT": torch.zeros(1, 5)}
    assert not reinforce_plus_plus(**turns, turn_index_BT=one_turn, mask_BT=one_turn >= 0).any()


def test_a_row_with_an_infinite_reward_spoils_nothing():
    batch = rows([[1.0, 2.0], [0.0, 1.0], [math.inf, 0.0]], [0, 0, 0])
    for algorithm in (ReinforcePlusPlus(), ReinforcePlusPlus(baseline=True)):
        advantages_BT = algorithm.credit(batch, outputs(batch)).advantages_BT
        assert advantages_BT.isfinite().all() and advantages_BT[:2].any() and not advantages_BT[2].any()


def test_shapes_are_checked():
    turns_BT = torch.tensor(TURNS[:1])
    arguments = {"token_rewards_BT": torch.zeros(1, 5), "turn_index_BT": turns_BT, "mask_BT": turns_BT >= 0}
    with pytest.raises(ValueError, match="turn_index_BT: expected numbers"):
        reinforce_plus_plus(torch.zeros(1, 1), **arguments)
    with pytest.raises(ValueError, match=r"group_index_B: expected shape \(1,\)"):
        reinforce_plus_plus(torch.zeros(1, 2), **arguments, group_index_B=torch.zeros(2, dtype=torch.long))
    with pytest.raises(ValueError, match="mask_BT: expected dtype bool"):
        reinforce_plus_plus(torch.zeros(1, 2), **{**arguments, "mask_BT": turns_BT})


def test_what_a_masked_turn_earned_counts_for_the_turns_before_it():
    mask = torch.tensor([[True, False], [True, True]])
    batch = rows(REWARDS, [0, 0], trainable_BK=mask)
    advantages_BT = ReinforcePlusPlus().credit(batch, outputs(batch)).advantages_BT
    # 1 + 2 at the two tokens of row 0's first turn, whose second is not learnt from; 0 + 1, 1, 1 in row 1
    expected = whitened([3.0, 3.0, 1.0, 1.0, 1.0])
    assert advantages_BT[batch.response_mask_BT].tolist() == pytest.approx(expected, abs=1e-6)
    assert not advantages_BT[~batch.response_mask_BT].any()
