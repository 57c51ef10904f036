"""Groups whose siblings all earned the same are known whatever the order they earned it in, which sums round by."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch

from tests.unit.training.algorithms.siblings import outputs
from tests.unit.training.batches import text_batch
from training.algorithms.algorithm import Algorithm
from training.algorithms.dapo import DAPO
from training.algorithms.estimators import zero_variance_groups
from training.algorithms.gigpo import GiGPO
from training.algorithms.grpo import GRPO
from training.algorithms.gspo import GSPO
from training.algorithms.reinforce_plus_plus import ReinforcePlusPlus
from training.algorithms.rloo import RLOO
from training.batch import Batch

ORDERS = sorted(set(permutations((0.4, -0.1, 1.4, -0.1))))
SPLIT = [(9.3, -9.2, 0.0, 0.0), (0.1, 0.0, 0.0, 0.0), (0.3, -0.2, 0.0, 0.0), (0.7, -0.1, -0.1, -0.4)]
"""The same in all, of other parts; what float32 makes of 9.3 and -9.2 is not 0.1."""
DIFFERS = [(1.0, 0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 1e-4)]
COMPARED: list[Algorithm] = [GRPO(), DAPO(), GSPO(), GiGPO(), GiGPO(gamma=1.0, omega=2.0)]


def batch_of(flat: list[tuple[float, ...]]) -> Batch:
    """Returns rows of four turns in two groups: one of equal siblings, and one whose two earned a little differently.

    All begin in one state, and come to no other twice.
    """
    earned = [*flat, *DIFFERS]
    states_BK = torch.arange(4 * len(earned)).view(-1, 4)
    states_BK[:, 0] = 0 if flat is ORDERS else -1
    group_B = torch.tensor([0] * len(flat) + [1] * len(DIFFERS))
    return text_batch([[0, 1, 2, 3]] * len(earned), earned, group_index_B=group_B, state_index_BK=states_BK)


@pytest.mark.parametrize("flat", [ORDERS, SPLIT], ids=["orders", "parts"])
@pytest.mark.parametrize("algorithm", [*COMPARED, RLOO(), ReinforcePlusPlus(baseline=True)], ids=repr)
def test_what_siblings_earned_alike_teaches_nothing(algorithm, flat):
    if algorithm == GiGPO():
        flat = SPLIT  # discounted, turns that earn the same in another order do differ
    batch, num_flat = batch_of(flat), len(flat)
    assert len(batch.turn_rewards_BK[:num_flat].sum(-1).unique()) > 1, "float32 sums of them are not equal"
    if algorithm in COMPARED:
        assert algorithm.useful_rows(batch).tolist() == [False] * num_flat + [True, True]
        batch = algorithm.keep(batch)
        assert batch.trainable_B.tolist() == [False] * num_flat + [True, True]
    advantages_BT = algorithm.credit(batch, outputs(batch)).advantages_BT
    assert (advantages_BT[num_flat:] != 0).all()
    if not isinstance(algorithm, ReinforcePlusPlus):
        assert not advantages_BT[:num_flat].any()
        return
    assert len(advantages_BT[:num_flat].unique()) == 1, "normalised over the batch they are alike"


@pytest.mark.parametrize("algorithm", COMPARED, ids=repr)
def test_advantages_of_a_flat_group_are_zero_whoever_keeps_it(algorithm):
    flat = SPLIT if algorithm == GiGPO() else ORDERS
    batch = batch_of(flat)
    assert not algorithm.credit(batch, outputs(batch)).advantages_BT[: len(flat)].any()


def test_the_kl_penalty_tells_siblings_apart():
    batch = batch_of(ORDERS)
    penalties_BT = torch.zeros(batch.turn_index_BT.shape)
    penalties_BT[0, 0] = -1e-4
    advantages_BT = RLOO().credit(batch, outputs(batch, penalties_BT)).advantages_BT
    assert advantages_BT[0, 0].item() == pytest.approx(-1e-4, rel=0.01)


def test_rounding_is_measured_by_the_largest_of_a_group():
    returns_B, groups_B = torch.tensor([0.1, 0.1 + 5e-7, 2.0, 2.0 + 3e-6, 0.0, 0.0]), torch.tensor([0, 0, 1, 1, 2, 2])
    assert zero_variance_groups(returns_B, groups_B).tolist() == [False, False, True]
    magnitudes_B = torch.tensor([0.1, 1.0, 2.0, 2.0, 0.0, 0.0])
    assert zero_variance_groups(returns_B, groups_B, magnitudes_B).tolist() == [True, False, True]
    with pytest.raises(ValueError, match="magnitudes_B"):
        zero_variance_groups(returns_B, groups_B, magnitudes_B[:2])


@pytest.mark.parametrize(
    ("returns", "is_flat"),
    [
        ([float("nan")], False),
        ([float("nan"), float("nan")], False),
        ([1.0, float("nan")], False),
        ([1.0, float("inf")], False),
        ([float("-inf"), float("inf")], False),
        ([float("inf"), float("inf")], True),
    ],
)
def test_what_is_not_finite_is_compared_as_it_is(returns, is_flat):
    groups_B = torch.zeros(len(returns), dtype=torch.long)
    assert zero_variance_groups(torch.tensor(returns), groups_B).tolist() == [is_flat]
