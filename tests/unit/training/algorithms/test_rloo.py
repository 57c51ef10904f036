"""RLOO against the paper's formula, A_i = R_i - sum over j != i of R_j / (k - 1)."""

from __future__ import annotations

import pytest
import torch

from tests.unit.training.algorithms.siblings import GENERATED, outputs, rows
from training.algorithms.rloo import RLOO, rloo

REWARDS = [[1.0, 0.0], [2.0, 1.0], [8.0, 0.0], [5.0, 0.0], [3.0, 4.0]]
GROUPS = [0, 0, 0, 7, 7]
# Returns 1, 3, 8 and 5, 7: 1 - 11/2, 3 - 9/2, 8 - 4/2; 5 - 7, 7 - 5
ADVANTAGES = torch.tensor([-4.5, -1.5, 6.0, -2.0, 2.0])


def test_golden():
    batch = rows(REWARDS, GROUPS)
    credit = RLOO().credit(batch, outputs(batch))
    torch.testing.assert_close(credit.advantages_BT, ADVANTAGES[:, None] * GENERATED)
    assert credit.returns_BT is None


def test_the_kl_penalty_is_in_the_return():
    batch = rows([[1.0, 0.0]] * 3, [0, 0, 0])
    penalties_BT = torch.zeros(3, 5)
    penalties_BT[0] = torch.tensor([9.0, -0.25, -0.5, 9.0, -0.25])  # 9 stands where nothing was generated
    credit = RLOO().credit(batch, outputs(batch, penalties_BT))
    # Returns 0, 1, 1: 0 - 1; 1 - 1/2; 1 - 1/2
    assert credit.advantages_BT.amax(-1).tolist() == [0.0, 0.5, 0.5]
    assert credit.advantages_BT[0].tolist() == [0.0, -1.0, -1.0, 0.0, -1.0]
    assert RLOO().keep(batch).trainable_B.all(), "siblings that the world paid the same differ by their penalties"


def test_it_is_grpo_without_scale_times_k_by_k_minus_1():
    from training.algorithms.grpo import grpo

    generator = torch.Generator().manual_seed(3)
    returns_B, groups_B = torch.randn(12, generator=generator), torch.arange(12) // 4
    turns_BT = torch.zeros(12, 1, dtype=torch.long)
    expected = grpo(returns_B, groups_B, turns_BT, scale="none") * 4 / 3
    torch.testing.assert_close(rloo(returns_B, groups_B, turns_BT), expected)


def test_the_order_of_rows_means_nothing():
    order = [4, 1, 3, 0, 2]
    batch = rows(REWARDS, GROUPS).select(order)
    torch.testing.assert_close(
        RLOO().credit(batch, outputs(batch)).advantages_BT, (ADVANTAGES[:, None] * GENERATED)[order]
    )


def test_equal_returns_and_a_row_on_its_own_give_exactly_zero():
    returns_B = torch.tensor([0.1] * 7 + [5.0])
    groups_B = torch.tensor([0] * 7 + [1])
    assert not rloo(returns_B, groups_B, torch.zeros(8, 2, dtype=torch.long)).any()


@pytest.mark.parametrize(
    "masked",
    [
        {"trainable_B": torch.tensor([True, True, False, True, True])},
        {"trainable_BK": torch.tensor([[True, True]] * 2 + [[True, False]] + [[True, True]] * 2)},
    ],
)
def test_a_row_that_failed_or_was_not_wholly_judged_gets_and_gives_nothing(masked):
    batch = rows([[1.0, 0.0], [2.0, 1.0], [-99.0, 0.0], [5.0, 0.0], [3.0, 4.0]], GROUPS, **masked)
    advantages_BT = RLOO().credit(batch, outputs(batch)).advantages_BT
    assert advantages_BT[:, 1].tolist() == [-2.0, 2.0, 0.0, -2.0, 2.0]


def test_a_row_that_nothing_can_be_compared_with_does_not_dilute_the_others():
    judged_BK = torch.tensor([[True, True], [True, True], [True, False], [True, True], [True, True]])
    batch = rows([[1.0, 0.0], [2.0, 1.0], [8.0, 0.0], [5.0, 0.0], [3.0, 4.0]], [0, 0, 0, 7, 8], trainable_BK=judged_BK)
    assert RLOO().keep(batch).trainable_B.tolist() == [True, True, False, False, False]


def test_shapes_are_checked():
    turns_BT = torch.zeros(2, 1, dtype=torch.long)
    with pytest.raises(ValueError, match="returns_B: expected shape"):
        rloo(torch.zeros(3), torch.zeros(2, dtype=torch.long), turns_BT)
    with pytest.raises(ValueError, match="group_index_B: expected an integer"):
        rloo(torch.zeros(2), torch.zeros(2), turns_BT)
