"""Intervals of success rates, against published tables and simulations."""

import numpy as np
import pytest

pytest.importorskip("scipy", reason="needs scipy: pip install '.[records]'")

from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, binomtest

from vlm_envs.statistics.paired_tests import PairedOutcomes
from vlm_envs.statistics.success_rates import paired_rates_interval, repeated_interval, wilson_interval


@pytest.mark.parametrize(
    ("num_successes", "num_trials", "low", "high"),
    [
        # Newcombe, Stat. Med. 17 (1998), table I, method 3
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_interval_agrees_with_the_published_table(num_successes, num_trials, low, high):
    assert wilson_interval(num_successes, num_trials) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_wilson_interval_is_scipys(confidence):
    for num_trials in (1, 7, 256):
        for num_successes in range(0, num_trials + 1, 1 + num_trials // 9):
            found = binomtest(num_successes, num_trials).proportion_ci(confidence, method="wilson")
            assert wilson_interval(num_successes, num_trials, confidence) == pytest.approx((found.low, found.high))


def test_the_ends_of_no_success_and_of_nothing_but_success_are_exact():
    # For 0 of n the upper end is z^2 / (n + z^2); z = 1.959964 gives 3.841459 / 13.841459 for n = 10
    assert (wilson_interval(0, 10).low, wilson_interval(10, 10).high) == (0.0, 1.0)
    assert wilson_interval(0, 10).high == pytest.approx(0.277533, abs=1e-6)
    assert wilson_interval(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize(("num_successes", "num_trials", "confidence"), [(1, 0, 0.95), (4, 3, 0.95), (1, 2, 95)])
def test_an_interval_of_what_cannot_be_is_refused(num_successes, num_trials, confidence):
    with pytest.raises(ValueError):
        wilson_interval(num_successes, num_trials, confidence)


class TestRepeatedInterval:
    @pytest.mark.parametrize(("solved", "levels"), [(0, 5), (5, 5), (3, 9), (128, 256)])
    def test_of_levels_played_once_it_is_wilsons(self, solved, levels):
        outcomes = [1] * solved + [0] * (levels - solved)
        assert repeated_interval(outcomes, [1] * levels) == pytest.approx(wilson_interval(solved, levels))

    def test_repeats_that_never_differ_add_nothing(self):
        assert repeated_interval([4, 0, 4, 0, 0], [4] * 5) == pytest.approx(wilson_interval(2, 5))
        assert repeated_interval([0] * 5, [4] * 5) == pytest.approx(wilson_interval(0, 5))

    def test_repeats_that_do_not_depend_on_the_level_count_as_trials(self):
        jeffreys = beta.ppf([0.025, 0.975], 12.5, 12.5)
        assert tuple(repeated_interval([2] * 6, [4] * 6)) == pytest.approx(tuple(jeffreys))

    def test_one_level_says_nothing_about_others(self):
        assert repeated_interval([32], [64]) == (0.0, 1.0)
        assert repeated_interval([64, 0], [64, 0]) == (0.0, 1.0)

    @given(st.lists(st.integers(0, 6), min_size=2, max_size=12))
    def test_it_lies_between_the_intervals_of_levels_and_of_trials(self, solved):
        """Wilson's for levels is the widest: no cluster can tell less than one trial."""
        low, high = repeated_interval(solved, [6] * len(solved))
        rate = sum(solved) / (6 * len(solved))
        most = repeated_interval([6 * rate] * len(solved), [6] * len(solved))
        assert 0 <= low <= rate <= high <= 1
        assert low <= most.low + 1e-9 and most.high <= high + 1e-9
        if rate in (0, 1):
            assert (low, high) == pytest.approx(wilson_interval(round(rate * len(solved)), len(solved)))

    def test_clusters_of_unequal_size_count_as_fewer(self):
        """Ten questions about one image and one about each of ten others."""
        even = repeated_interval([1] * 5 + [0] * 6, [1] * 11)
        uneven = repeated_interval([10] + [1] * 4 + [0] * 6, [10] + [1] * 10)
        assert uneven.high - uneven.low > even.high - even.low

    @pytest.mark.parametrize("sizes", [[200, 5, 5, 5], [100] + [1] * 10, [1000, 1]])
    def test_a_cluster_that_holds_almost_all_trials_says_nothing_about_others(self, sizes):
        for solved in (np.array(sizes) // 2, np.zeros(len(sizes)), sizes):
            assert repeated_interval(solved, sizes) == (0.0, 1.0)

    @pytest.mark.parametrize(
        "sizes",
        [
            [50, 20, 10, 5, 2, 1, 1, 1],
            # Questions per document, drawn from a geometric distribution of mean 8
            [30, 21, 18, 15, 13, 11, 10, 8, 7, 6, 5, 4, 4, 3, 2, 2, 1, 1, 1, 1],
            [100] + [1] * 100,
        ],
    )
    @pytest.mark.parametrize(("a", "b"), [(0.3, 0.3), (5.0, 5.0), (0.5, 2.0)])
    def test_clusters_of_unequal_size_cover_the_truth_at_least_as_often_as_they_say(self, sizes, a, b):
        rng = np.random.default_rng(7)
        solved = rng.binomial(sizes, rng.beta(a, b, size=(600, len(sizes))))
        intervals = (repeated_interval(numbers, sizes) for numbers in solved)
        assert np.mean([low <= a / (a + b) <= high for low, high in intervals]) >= 0.92

    def test_without_trials_every_rate_is_possible(self):
        assert repeated_interval([], []) == (0.0, 1.0)

    def test_it_covers_the_truth_as_often_as_it_says(self):
        rng = np.random.default_rng(3)
        hits = naive = 0
        for _ in range(400):
            rates = rng.beta(0.5, 0.5, size=40)  # mean 0.5, levels that are mostly easy or hard
            solved = rng.binomial(8, rates)
            low, high = repeated_interval(solved, [8] * 40)
            hits += low <= 0.5 <= high
            low, high = wilson_interval(int(solved.sum()), 320)
            naive += low <= 0.5 <= high
        assert 0.91 < hits / 400 < 0.98
        assert naive / 400 < 0.75  # so that the test can tell

    @pytest.mark.parametrize(("a", "b"), [(0.3, 0.3), (5.0, 5.0), (0.5, 2.0)])
    @pytest.mark.parametrize(("num_levels", "num_repeats"), [(2, 16), (4, 16), (8, 64), (16, 16), (64, 16)])
    @pytest.mark.sample(5)
    def test_few_levels_with_many_repeats_cover_the_truth_as_often_as_they_say(self, num_levels, num_repeats, a, b):
        """2,000 boards whose levels have success rates from a beta distribution."""
        rng = np.random.default_rng(48)
        solved = rng.binomial(num_repeats, rng.beta(a, b, size=(2000, num_levels)))
        trials = np.full(num_levels, num_repeats)
        intervals = (repeated_interval(each, trials) for each in solved)
        covered = np.mean([low <= a / (a + b) <= high for low, high in intervals])
        assert 0.93 <= covered <= 0.98


class TestPairedRates:
    def interval(self, both, lost, won, neither):
        outcomes = PairedOutcomes(num_both=both, num_only_before=lost, num_only_after=won, num_neither=neither)
        total = outcomes.num_pairs
        rates = (wilson_interval(both + lost, total), wilson_interval(both + won, total))
        return paired_rates_interval(outcomes, *rates)

    def test_where_nothing_changed_it_is_not_sure_of_that(self):
        low, high = self.interval(20, 0, 0, 20)
        assert low == pytest.approx(-high)
        assert 0 < high < 0.15

    def test_it_turns_with_its_sides(self):
        low, high = self.interval(30, 5, 15, 50)
        assert low < 0.1 < high
        assert self.interval(30, 15, 5, 50) == pytest.approx((-high, -low))

    @pytest.mark.parametrize("counts", [(9, 0, 0, 0), (0, 0, 0, 9), (0, 9, 0, 0), (0, 0, 9, 0), (1, 0, 0, 0)])
    def test_at_the_edges_it_stays_within_the_possible(self, counts):
        low, high = self.interval(*counts)
        assert -1 <= low <= (counts[2] - counts[1]) / sum(counts) <= high <= 1
        assert low < high

    def test_it_covers_the_truth_as_often_as_it_says(self):
        rng = np.random.default_rng(11)
        hits = 0
        for counts in rng.multinomial(50, [0.5, 0.05, 0.2, 0.25], size=1000):
            low, high = self.interval(*map(int, counts))
            hits += low <= 0.15 <= high
        assert 0.93 < hits / 1000 < 0.985
