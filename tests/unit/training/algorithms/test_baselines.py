"""Baselines of advantages: group mean, leave-one-out mean, batch mean."""

import pytest
import torch

from training.algorithms.estimators import masked_whiten, subtract_siblings, zero_variance_groups
from training.algorithms.grpo import grpo

NAN = float("nan")


class TestGrpo:
    # Group 7 is rows 0, 2, 4 with returns 1, 2, 6: mean 3, deviations -2, -1, 3, sum of squares 14, sample
    # standard deviation sqrt(14 / 2) = sqrt(7). Group 3 is rows 1, 3 with equal returns. Row 5 is alone.
    RETURNS = torch.tensor([1.0, 0.1, 2.0, 0.1, 6.0, 9.0])
    GROUPS = torch.tensor([7, 3, 7, 3, 7, 5])
    TURNS = torch.tensor([[0, -1, 1]]).expand(6, 3)

    def test_std_scale(self) -> None:
        advantages = grpo(self.RETURNS, self.GROUPS, self.TURNS, scale="std", eps=1e-9)
        expected_B = torch.tensor([-2.0, 0.0, -1.0, 0.0, 3.0, 0.0]) / 7.0**0.5
        torch.testing.assert_close(advantages, expected_B[:, None] * torch.tensor([1.0, 0.0, 1.0]))

    def test_eps_is_added_to_the_standard_deviation(self) -> None:
        advantages = grpo(self.RETURNS, self.GROUPS, self.TURNS, scale="std", eps=1.0)
        assert advantages[4, 0].item() == pytest.approx(3.0 / (7.0**0.5 + 1.0))

    def test_no_scale(self) -> None:
        advantages = grpo(self.RETURNS, self.GROUPS, self.TURNS, scale="none")
        torch.testing.assert_close(advantages[:, 0], torch.tensor([-2.0, 0.0, -1.0, 0.0, 3.0, 0.0]))

    def test_equal_returns_give_exactly_zero(self) -> None:
        # The float32 mean of many 0.1 is not 0.1; its rounding error over the tiny deviation would be noise.
        returns, groups = torch.full((7,), 0.1), torch.zeros(7, dtype=torch.long)
        assert not grpo(returns, groups, torch.zeros(7, 2, dtype=torch.long), eps=1e-12).any()

    def test_zero_variance_groups_in_ascending_order(self) -> None:
        assert zero_variance_groups(self.RETURNS, self.GROUPS).tolist() == [True, True, False]  # 3, 5, 7

    def test_unknown_scale(self) -> None:
        with pytest.raises(ValueError, match="'std' or 'none', got 'var'"):
            grpo(self.RETURNS, self.GROUPS, self.TURNS, scale="var")  # type: ignore[arg-type]


class TestWhiten:
    # Entries 1, 2, 6: mean 3, sample variance 7. The NaN is masked out.
    X = torch.tensor([[1.0, NAN], [2.0, 6.0]])
    MASK = torch.tensor([[True, False], [True, True]])

    def test_statistics_come_through_the_mask(self) -> None:
        expected = torch.tensor([[-2.0, 0.0], [-1.0, 3.0]]) / 7.0**0.5
        torch.testing.assert_close(masked_whiten(self.X, self.MASK), expected)

    @pytest.mark.parametrize("num_true", [0, 1])
    def test_too_few_entries_give_zeros(self, num_true: int) -> None:
        mask = torch.arange(4).view(2, 2) < num_true
        torch.testing.assert_close(masked_whiten(torch.full((2, 2), 5.0), mask), torch.zeros(2, 2))


def test_siblings_are_subtracted_without_the_row_itself():
    advantages_BT = torch.tensor([[4.0, 2.0, 9.0], [1.0, 9.0, 9.0], [0.0, -2.0, 9.0], [5.0, 5.0, 9.0], [7.0, 9.0, 9.0]])
    mask_BT = torch.tensor([[1, 1, 0], [1, 0, 0], [1, 1, 0], [0, 0, 0], [1, 0, 0]]).bool()
    group_B = torch.tensor([3, 3, 3, 3, 8])
    # Row means 3, 1, -1; the fourth row has no tokens; the fifth no siblings. Others' means: 0, 1, 2.
    expected_BT = [[4.0, 2.0, 0.0], [0.0, 0.0, 0.0], [-2.0, -4.0, 0.0], [0.0, 0.0, 0.0], [7.0, 0.0, 0.0]]
    assert subtract_siblings(advantages_BT, mask_BT, group_B).tolist() == expected_BT
    with pytest.raises(ValueError, match="group_index_B"):
        subtract_siblings(advantages_BT, mask_BT, group_B.float())
