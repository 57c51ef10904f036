"""What is kept to imitate, whatever reward verified it."""

import math

import pytest

from judges.episode_rewards.rollout_curation import curate, is_trivial
from judges.scores import Reward
from vlm_envs.errors import ConfigError


def test_samples_are_kept_by_their_best_rollout():
    # Argos, appendix C: the best score must reach 0.7.
    def rollouts(*totals):
        return [
            (f"rollout {number}", Reward.unavailable("") if total is None else Reward(terms={"accuracy": total}))
            for number, total in enumerate(totals)
        ]

    curated = curate(
        {
            "a": rollouts(0.2, 0.9, 0.8),
            "b": rollouts(0.69, 0.0),
            "c": rollouts(0.7, 0.7),
            "d": rollouts(None),
            "e": [],
        }
    )
    assert curated.kept == {"a": "rollout 1", "c": "rollout 0"}
    assert curated.sample_yield == 2 / 5
    assert curated.rollout_yield == 4 / 8


def test_nothing_in_nothing_out():
    curated = curate({})
    assert (curated.kept, math.isnan(curated.sample_yield), math.isnan(curated.rollout_yield)) == ({}, True, True)


def test_only_samples_always_right_are_trivial():
    # ARM-Thinker, section 3.2: 100 % of five.
    assert [is_trivial(num_right) for num_right in (5, 4, 0)] == [True, False, False]
    assert is_trivial(2, num_samples=2)
    with pytest.raises(ConfigError, match="from 0 to 5"):
        is_trivial(6)
