"""Rewards of whole episodes by name. To add one, write its file and name it here, or `register` it from your own."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from judges.episode_rewards.agentic import AGENTIC
from judges.episode_rewards.argos import ARGOS
from judges.episode_rewards.arm import ARM_ACCURACY, ARM_EXPLORATION
from judges.episode_rewards.ivgr import IVGR
from judges.episode_rewards.mags import MAGS_STAGE_1, MAGS_STAGE_2
from judges.episode_rewards.models import JudgeModels
from judges.episode_rewards.reward import EpisodeJudge, EpisodeReward
from vlm_envs.arguments.faults import import_named
from vlm_envs.errors import ConfigError, require_choice

_REWARDS: dict[str, EpisodeReward] = {}

EPISODE_REWARDS: Mapping[str, EpisodeReward] = MappingProxyType(_REWARDS)
"""Every reward by its name."""


def register(reward: EpisodeReward) -> None:
    """Makes a reward known by its name.

    Raises:
        ConfigError: Another one has it.
    """
    if _REWARDS.setdefault(reward.name, reward) is not reward:
        raise ConfigError(f"There is an episode reward {reward.name!r} already. Choose another name.")


for _reward in (ARM_EXPLORATION, ARM_ACCURACY, MAGS_STAGE_1, MAGS_STAGE_2, IVGR, ARGOS, AGENTIC):
    register(_reward)


def episode_reward(name: str, *, option: str = "episode reward") -> EpisodeReward:
    """Returns a reward by its name.

    Args:
        name: One of `EPISODE_REWARDS`, or `MODULE:NAME` of one that a module of your own registers.
        option: What the name was given by, for the error.

    Raises:
        ConfigError: There is no such reward; the message suggests the closest.
    """
    module, colon, own = name.rpartition(":")
    if colon and module:
        instead = "Run from the folder that holds it, or name that folder in PYTHONPATH."
        import_named(module, option=f"{option} {name}", instead=instead)
    return EPISODE_REWARDS[require_choice(option, own, tuple(EPISODE_REWARDS))]


def episode_judge(name: str, **models: Any) -> EpisodeJudge:
    """Returns the judge of a reward.

    Args:
        name: One of `EPISODE_REWARDS`.
        **models: Whom it may ask: fields of `JudgeModels`.

    Raises:
        ConfigError: There is no such reward, or a model it cannot do without is missing.
    """
    return episode_reward(name).build(JudgeModels(**models))
