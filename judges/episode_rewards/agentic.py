"""The reward of a judge that uses tools for itself: its verdict on the last response of an episode of any world."""

from __future__ import annotations

from typing import Any

from judges.deferred import Deferred
from judges.episode_rewards.episode import own_pieces, shown_images
from judges.episode_rewards.models import JudgeModels
from judges.episode_rewards.reward import EachByItself, EpisodeJudge, EpisodeReward
from judges.scores import Reward
from vlm_envs.errors import ConfigError
from vlm_envs.tools.pictures import Picture
from vlm_envs.trajectory import Trajectory


def _build(models: JudgeModels) -> EpisodeJudge:
    judge = models.agentic_judge
    if judge is None:
        raise ConfigError("The reward 'agentic' needs a judge with a model; got None.")

    def reward_of(episode: Trajectory) -> Reward:
        """Returns the verdict, as the only term; unavailable where there is none."""
        pictures = tuple(map(Picture, shown_images(episode)))
        verdict = judge.score(episode.turns[0].observation.get("text", ""), own_pieces(episode)[-1], pictures=pictures)
        if not verdict.available:
            return Reward.unavailable(verdict.reason)
        return Reward(terms={"verdict": verdict.value}, raw={"verdict": verdict.value}, reason=verdict.reason)

    def look_at_all(asked: list[tuple[Any, ...]]) -> list[Reward]:
        return models.map_fn(lambda one: reward_of(one[0]), asked)

    look = Deferred(
        look_at_all,
        Reward.unavailable("not asked yet"),
        key_of=lambda asked: id(asked[0].turns),  # which an episode keeps that is given another world's name
        ask_one=lambda one: reward_of(one[0]),
        ahead=models.ahead,
    )
    return EachByItself(look, [look])


AGENTIC = EpisodeReward(
    name="agentic",
    build=_build,
    models=frozenset({"agentic_judge"}),
    needs=frozenset({"agentic_judge"}),
    overlapping_rewards=frozenset({"answer_reward"}),
)
