"""Numbers that compare agents, against references worked out otherwise."""

import itertools

import numpy as np
import pytest

pytest.importorskip("scipy", reason="needs scipy: pip install '.[records]'")

from scipy import stats

from vlm_envs.records.comparisons import (
    holm,
    mcnemar_power,
    num_levels_needed,
    paired_bootstrap,
    paired_rates_interval,
    paired_seeds_bootstrap,
    pass_at_k,
    pass_hat_k,
    repeated_interval,
    seeds_interval,
    sign_flip_test,
)
from vlm_envs.records.statistics import PairedOutcomes, mcnemar_exact, wilson_interval


class TestPairedBootstrap:
    def test_it_agrees_with_scipys(self):
        rng = np.random.default_rng(5)
        first = rng.normal(0, 1, 200)
        second = first + rng.normal(0.1, 0.5, 200)
        found = paired_bootstrap(first, second)
        peer = stats.bootstrap((second - first,), np.mean, method="percentile", rng=np.random.default_rng(1))
        assert found.mean == pytest.approx((second - first).mean())
        assert found.interval == pytest.approx(tuple(peer.confidence_interval), abs=0.01)

    def test_its_interval_covers_the_truth_as_often_as_it_says(self):
        rng = np.random.default_rng(0)
        hits = 0
        for _ in range(300):
            low, high = paired_bootstrap(np.zeros(60), rng.normal(0.3, 1, 60), num_resamples=400).interval
            hits += low <= 0.3 <= high
        assert 0.90 < hits / 300 < 0.98

    def test_equal_agents_do_not_differ(self):
        found = paired_bootstrap([1.0, 2.0], [1.0, 2.0])
        assert (found.mean, found.p_value, found.interval) == (0.0, 1.0, (0.0, 0.0))

    def test_the_same_numbers_give_the_same_interval(self):
        assert paired_bootstrap([0, 1, 0, 0], [1, 1, 0, 1]) == paired_bootstrap([0, 1, 0, 0], [1, 1, 0, 1])

    @pytest.mark.parametrize(("num_levels", "least"), [(1, 1.0), (3, 0.25), (6, 2 / 2**6)])
    def test_a_few_levels_prove_little_however_they_agree(self, num_levels, least):
        assert paired_bootstrap([0.0] * num_levels, [1.0] * num_levels).p_value == least

    @pytest.mark.parametrize("pair", [([], []), ([1.0], [[1.0]]), ([[1.0]], [[1.0]])])
    def test_what_is_no_pair(self, pair):
        with pytest.raises(ValueError, match="as many levels"):
            paired_bootstrap(*pair)


class TestPairedSeedsBootstrap:
    def test_of_one_seed_it_is_that_of_levels(self):
        rng = np.random.default_rng(5)
        first, second = rng.normal(0, 1, 200), rng.normal(0.2, 1, 200)
        found, peer = paired_seeds_bootstrap([first], [second]), paired_bootstrap(first, second)
        assert found.mean == pytest.approx(peer.mean)
        assert found.interval == pytest.approx(peer.interval, abs=0.02) and found.p_value == pytest.approx(
            peer.p_value, abs=0.02
        )

    def test_seeds_that_disagree_widen_it(self):
        first = np.zeros((3, 100))
        agree = paired_seeds_bootstrap(first, np.tile([0.0, 1, 1, 1], (3, 25)))
        differ = paired_seeds_bootstrap(first, np.array([[1.0] * 100, [1.0] * 100, [0.25] * 100]))
        assert agree.mean == differ.mean == 0.75
        assert differ.interval.low == 0.25 < agree.interval.low

    def test_a_few_levels_prove_little_however_seeds_agree(self):
        won = np.array([[1.0] * 4 + [0.0] * 36] * 3)
        found = paired_seeds_bootstrap(np.zeros((3, 40)), won)
        assert found.p_value == 2 / 2**4

    @pytest.mark.parametrize("pair", [([[]], [[]]), ([[1.0]], [[1.0, 2.0]]), ([1.0], [1.0])])
    def test_what_is_no_pair(self, pair):
        with pytest.raises(ValueError, match="as many seeds and levels"):
            paired_seeds_bootstrap(*pair)


class TestLevelsPlayedSeveralTimes:
    LEVELS = "aabbccddeeffgghh"

    def test_they_are_drawn_whole(self):
        """Eight levels played twice, with the same outcome, tell what eight levels tell, and no more."""
        once = np.array([1.0, 1, 1, 1, 1, 0, 0, -1])
        twice = np.repeat(once, 2)
        for of in (lambda x, levels: paired_bootstrap(0 * x, x, levels=levels), self.over_two_seeds):
            few, many, clusters = of(once, None), of(twice, None), of(twice, self.LEVELS)
            assert few.mean == many.mean == clusters.mean
            assert clusters.interval == pytest.approx(few.interval, abs=0.01)
            assert many.interval.low > clusters.interval.low + 0.05
            assert many.p_value < clusters.p_value == pytest.approx(few.p_value, abs=0.01)
        assert seeds_interval([twice], levels=self.LEVELS) == pytest.approx(seeds_interval([once]), abs=0.01)

    @staticmethod
    def over_two_seeds(difference, levels):
        both = np.array([difference, difference])
        return paired_seeds_bootstrap(0 * both, both, levels=levels)

    def test_those_played_more_often_weigh_more(self):
        found = paired_bootstrap([0.0] * 4, [1.0, 1.0, 1.0, 0.0], levels=["a", "a", "a", "b"])
        assert found.mean == 0.75 and tuple(found.interval) == (0.0, 1.0)
        assert found.p_value == 1.0, "one level that differs proves nothing"

    def test_there_are_as_many_as_episodes(self):
        with pytest.raises(ValueError, match="the level of each of 2 episodes; got 1"):
            paired_bootstrap([0.0, 1.0], [1.0, 1.0], levels=["a"])


class TestSignFlips:
    @pytest.mark.parametrize("differences", [[], [0, 0], [1], [3, -1, 2, 0], [1, 1, 1, -1], [2, 2, -3, 1, 1]])
    def test_it_is_the_share_of_all_choices_of_signs(self, differences):
        sums = [
            abs(sum(sign * each for sign, each in zip(signs, differences, strict=True)))
            for signs in itertools.product((-1, 1), repeat=len(differences))
        ]
        assert sign_flip_test(differences) == pytest.approx(np.mean([each >= abs(sum(differences)) for each in sums]))

    @pytest.mark.parametrize(("lost", "won"), [(0, 0), (1, 10), (40, 60), (100, 300)])
    def test_on_levels_played_once_it_is_mcnemars(self, lost, won):
        assert sign_flip_test([-1] * lost + [1] * won) == pytest.approx(mcnemar_exact(lost, won))


class TestRepeatedInterval:
    @pytest.mark.parametrize(("solved", "levels"), [(0, 5), (5, 5), (3, 9), (128, 256)])
    def test_of_levels_played_once_it_is_wilsons(self, solved, levels):
        outcomes = [1] * solved + [0] * (levels - solved)
        assert repeated_interval(outcomes, [1] * levels) == pytest.approx(wilson_interval(solved, levels))

    def test_repeats_that_never_differ_add_nothing(self):
        assert repeated_interval([4, 0, 4, 0, 0], [4] * 5) == pytest.approx(wilson_interval(2, 5))
        assert repeated_interval([0] * 5, [4] * 5) == pytest.approx(wilson_interval(0, 5))

    def test_repeats_that_do_not_depend_on_the_level_are_all_worth_something(self):
        assert repeated_interval([2] * 6, [4] * 6) == pytest.approx(wilson_interval(12, 24))

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


class TestHolm:
    def test_an_example_worked_by_hand(self):
        assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])

    def test_one_stays_and_none_is_above_one(self):
        assert holm([0.2]) == [0.2]
        assert holm([0.6, 0.7]) == [1.0, 1.0]
        assert holm([]) == []


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
