"""Power, against simulations of the test."""

import numpy as np
import pytest

pytest.importorskip("scipy", reason="needs scipy: pip install '.[records]'")

from vlm_envs.statistics.paired_tests import family_power, mcnemar_exact, mcnemar_power, num_levels_needed


class TestPower:
    def test_it_is_how_often_the_test_finds_the_difference(self):
        rng = np.random.default_rng(2)
        counts = rng.multinomial(120, [0.1, 0.25, 0.65], size=2000)
        found = np.mean([mcnemar_exact(int(first), int(second)) < 0.05 for first, second, _ in counts])
        assert mcnemar_power(120, 0.1, 0.25) == pytest.approx(found, abs=0.03)

    def test_the_number_needed_is_about_the_least(self):
        needed = num_levels_needed(0.1, 0.2)
        assert mcnemar_power(needed, 0.1, 0.2) >= 0.8 > mcnemar_power(needed - 10, 0.1, 0.2)

    @pytest.mark.parametrize(("only_first", "only_second"), [(0.0, 0.9), (0.02, 0.5), (0.0, 1.0)])
    def test_few_levels_are_counted_to_the_last_one(self, only_first, only_second):
        """The least number by trying all; one with alpha 0.5 is below 8, where the search begins."""
        for alpha in (0.05, 0.5):
            least = next(n for n in range(1, 99) if mcnemar_power(n, only_first, only_second, alpha=alpha) >= 0.8)
            assert num_levels_needed(only_first, only_second, alpha=alpha) == least

    def test_most_is_kept(self):
        needed = num_levels_needed(0.1, 0.2)
        assert num_levels_needed(0.1, 0.2, most=needed) == needed
        assert num_levels_needed(0.1, 0.2, most=needed - 1) is None

    def test_no_number_finds_no_difference(self):
        assert num_levels_needed(0.1, 0.1) is None
        assert num_levels_needed(0.3, 0.3001, most=2000) is None

    @pytest.mark.parametrize("numbers", [(0, 0.1, 0.2), (9, -0.1, 0.2), (9, 0.6, 0.6), (9, 0.0, 0.0)])
    def test_numbers_out_of_range(self, numbers):
        with pytest.raises(ValueError, match="probabilities"):
            mcnemar_power(*numbers)


def test_the_largest_board_takes_no_longer_for_more_levels():
    """As many tests and levels as `benchmarks power` allows; one simulated board has 500 million episodes."""
    found = family_power(100_000, 0.9997, 1.0, num_models=50, num_worlds=100)
    assert found.num_tests == 122_500
    assert 0.5 < found.least < found.most < 1
