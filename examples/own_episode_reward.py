"""An episode reward of your own: a solved episode earns more the fewer turns it took.

Train with it:
PYTHONPATH=examples python -m training frozenlake_tiny --judge.episode-reward own_episode_reward:few_turns
"""

from __future__ import annotations

from judges.episode_rewards.episode_reward import EachByItself, EpisodeReward
from judges.episode_rewards.reward_registry import register
from judges.scores import Reward
from vlm_envs.trajectory import Trajectory


def few_turns(episode: Trajectory) -> Reward:
    """Returns one term: 1 for an episode solved in its first turn, 0 for one that is not solved."""
    return Reward(terms={"few_turns": 1.0 / len(episode.turns) if episode.success else 0.0})


register(EpisodeReward(name="few_turns", build=lambda models: EachByItself(few_turns)))
