"""Resampled differences, against scipy's and simulations."""

import numpy as np
import pytest

pytest.importorskip("scipy", reason="needs scipy: pip install '.[records]'")

from scipy import stats

from vlm_envs.statistics.bootstrap import paired_bootstrap, paired_seeds_bootstrap, seeds_interval

REWARDS = {
    "normal": lambda rng, size: rng.normal(0, 1, size),
    "skewed": lambda rng, size: rng.lognormal(0, 1, size),
    "0 or 1": lambda rng, size: rng.integers(2, size=size).astype(float),
    "mostly ties": lambda rng, size: (rng.random(size) < 0.1).astype(float),
    "steps and goal": lambda rng, size: rng.integers(2, size=size) - 0.1 * rng.integers(1, 20, size),
}
"""Rewards of equal agents on each level."""


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

    @pytest.mark.parametrize("num_levels", [8, 16, 64])
    @pytest.mark.parametrize("kind", REWARDS)
    @pytest.mark.sample(5)
    def test_equal_agents_seldom_seem_to_differ_on_few_levels(self, kind, num_levels):
        """1,000 boards of two equal agents; 0.065 is 0.05 and two standard errors."""
        rng = np.random.default_rng(81)
        found = [paired_bootstrap(*REWARDS[kind](rng, (2, num_levels)), num_resamples=1000) for _ in range(1000)]
        assert np.mean([each.p_value < 0.05 for each in found]) <= 0.065
        assert np.mean([not each.interval.low <= 0 <= each.interval.high for each in found]) <= 0.075

    def test_a_true_difference_is_found_on_8_levels(self):
        rng = np.random.default_rng(3)
        assert paired_bootstrap(rng.normal(0, 1, 8), rng.normal(4, 1, 8)).p_value == 2 / 2**8

    def test_one_level_says_nothing_about_others(self):
        low, high = paired_bootstrap([0.0, 0.0], [1.0, 0.5], levels=["a", "a"]).interval
        assert (low, high) == (-np.inf, np.inf)

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
        with pytest.raises(ValueError, match="equal length"):
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
        with pytest.raises(ValueError, match="equal shape"):
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

    def test_of_seeds_a_mean_is_of_the_episodes_that_were_drawn(self):
        levels = ["often"] * 20 + [str(number) for number in range(5)]
        assert seeds_interval(np.ones((3, 25)), levels=levels) == pytest.approx((1.0, 1.0))

    def test_those_played_more_often_weigh_more(self):
        found = paired_bootstrap([0.0] * 4, [1.0, 1.0, 1.0, 0.0], levels=["a", "a", "a", "b"])
        assert found.mean == 0.75
        assert found.p_value == 1.0, "one level that differs proves nothing"

    def test_there_are_as_many_as_episodes(self):
        with pytest.raises(ValueError, match="each of 2 episodes; got 1"):
            paired_bootstrap([0.0, 1.0], [1.0, 1.0], levels=["a"])
