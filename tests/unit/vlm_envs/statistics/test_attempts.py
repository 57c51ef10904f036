"""Several attempts, against all draws of them."""

import itertools

import numpy as np
import pytest

from vlm_envs.statistics.success_rates import pass_at_k, pass_hat_k


class TestPassAtK:
    def test_they_are_the_shares_of_all_draws(self):
        outcomes = [1, 0, 0, 1, 0]
        for k in range(1, 6):
            draws = list(itertools.combinations(outcomes, k))
            assert pass_at_k(5, 2, k) == pytest.approx(np.mean([any(draw) for draw in draws]))
            assert pass_hat_k(5, 2, k) == pytest.approx(np.mean([all(draw) for draw in draws]))

    @pytest.mark.parametrize("numbers", [(3, 4, 1), (3, -1, 1), (3, 1, 0), (3, 1, 4)])
    def test_numbers_out_of_range(self, numbers):
        for estimate in (pass_at_k, pass_hat_k):
            with pytest.raises(ValueError, match="Expected 1 <= k"):
                estimate(*numbers)
