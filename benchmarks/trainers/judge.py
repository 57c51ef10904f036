"""A judge that takes its time, and gives each episode a number by chance: no group's siblings all earn the same.

Such a group would be left out of our update, and of nobody else's.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from benchmarks.trainers.world import share_of
from judges.episode_rewards.episode_reward import EachByItself, EpisodeReward
from judges.episode_rewards.reward_registry import register
from judges.scores import Reward
from vlm_envs.trajectory import Trajectory

NAME = "late_judge"


class LateJudge(EachByItself):
    """Rewards each episode after a time, several at once, as a model behind an endpoint does.

    Args:
        answer_ms: How long one takes.
        num_parallel: How many are asked about at a time.
    """

    def __init__(self, answer_ms: float, num_parallel: int) -> None:
        super().__init__(self._rewarded)
        self._answer_s, self._num_parallel = answer_ms / 1000, num_parallel
        self._numbers = itertools.count()

    def __call__(self, episodes: Sequence[Trajectory]) -> list[Reward]:
        """Returns the reward of each episode, in order."""
        if not self._answer_s:
            return super().__call__(episodes)
        with ThreadPoolExecutor(self._num_parallel) as pool:
            return list(pool.map(self._rewarded, episodes))

    def _rewarded(self, episode: Trajectory) -> Reward:
        time.sleep(self._answer_s)
        return Reward(terms={"score": share_of(f"episode {next(self._numbers)}")})


def register_judge(answer_ms: float, num_parallel: int) -> str:
    """Makes the judge known to runs of this process; returns its name."""
    register(EpisodeReward(name=NAME, build=lambda models: LateJudge(answer_ms, num_parallel)))
    return NAME
