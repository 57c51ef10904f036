"""One iteration, recorded: slow worlds, a judge behind an endpoint, responses as long as the policy makes them."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym

from agents.api.endpoint_config import EndpointConfig
from agents.hf.hf_agent import load_checkpoint
from benchmarks.timeline.spans import (
    ANSWERED,
    UPDATE,
    Judged,
    SamplingSpans,
    Span,
    judge_spans,
    text_of,
    world_spans,
)
from benchmarks.trainers.world import share_of
from judges.batched_judging import defer
from judges.episode_rewards.episode_reward import EachByItself, EpisodeJudge, EpisodeReward
from judges.episode_rewards.judge_models import JudgeModels
from judges.episode_rewards.reward_registry import register
from judges.scores import JudgeScore, Reward
from training.algorithms.grpo import GRPO
from training.checkpoints.checkpoint_files import model_directory
from training.config.judge_config import JudgeConfig
from training.config.run_config import RunConfig
from training.config.world_spec import WorldSpec
from training.loop.interrupts import prepare
from training.loop.trainer import Trainer
from training.recipes.tiny import frozenlake_tiny
from vlm_envs.trajectory import Observation, Trajectory
from vlm_envs.worlds.frozen_lake import FrozenLakeWorld

ENV_ID = "Benchmark/UnevenLake-v0"
REWARD = "late_answer"
MOST = 3.0
"""Longest answer of a world, by its mean."""

GROUP_SIZE = 4
_worlds: list[int] = []
_questions: list[Judged] = []


class UnevenLake(FrozenLakeWorld):
    """FrozenLake whose answers take an exponentially distributed time, another one for each sibling.

    Args:
        mean_ms: Their mean, in milliseconds; none takes more than three times that.
        **kwargs: Those of FrozenLake.
    """

    def __init__(self, *, mean_ms: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._mean_s = mean_ms / 1000
        self._number = len(_worlds)
        _worlds.append(self._number)

    def step(self, action: str) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Carries out a response; see `vlm_envs.world.World.step`."""
        started_s = time.perf_counter()
        time.sleep(self._mean_s * min(-math.log1p(-share_of(f"{self._number} {action}")), MOST))
        *stepped, info = super().step(action)
        return (*stepped, {**info, ANSWERED: (started_s, time.perf_counter())})  # type: ignore[return-value]


gym.register(ENV_ID, entry_point=f"{__name__}:UnevenLake")


def _judge(models: JudgeModels) -> EpisodeJudge:
    """Returns a judge that asks a model about each episode, and gives what is by chance: siblings must not be alike."""
    answer_judge = models.answer_judge
    assert answer_judge is not None, "the entry asks for it"

    def ask(text: str) -> JudgeScore:
        started_s = time.perf_counter()
        score = answer_judge("Is this a good episode?", "yes", text)
        _questions.append(Judged(text=text, start_s=started_s, end_s=time.perf_counter()))
        return score

    deferred = defer(ask, models.map_fn, ahead=models.ahead)

    def reward_of(episode: Trajectory) -> Reward:
        text = text_of(episode)
        deferred(text)
        return Reward(terms={"chance": share_of(text)})

    return EachByItself(reward_of, [deferred])


register(
    EpisodeReward(
        name=REWARD,
        build=_judge,
        models=frozenset({"answer_judge"}),
        needs=frozenset({"answer_judge"}),
        answer_scale="binary",
    )
)


def run_config(
    rollout: Literal["barrier", "async"], base_url: str, *, num_groups: int, world_ms: float, num_threads: int
) -> RunConfig:
    """Returns the run: the shipped FrozenLake recipe's policy, GRPO, a thread for each world."""
    recipe = frozenlake_tiny()
    (lake,) = recipe.worlds
    return replace(
        recipe,
        worlds=(
            WorldSpec(
                env_id=f"{__name__}:{ENV_ID}",
                kwargs={**lake.kwargs, "mean_ms": world_ms},
                workers="thread",
                num_workers=num_groups * GROUP_SIZE,
            ),
        ),
        num_iterations=2,
        num_groups=num_groups,
        group_size=GROUP_SIZE,
        rollout=rollout,
        algorithm=GRPO(),
        ppo=replace(recipe.ppo, num_minibatches=1, micro_batch_size=8, kl_coef=0.0),
        judge=JudgeConfig(
            grounding_weight=0.0,
            worldmodeling_weight=0.0,
            episode_reward=REWARD,
            endpoint=EndpointConfig(model="late", base_url=base_url, api_key_variable=""),
        ),
        num_eval_episodes=0,
        checkpoint_every=0,
        record_every=0,
        device="cpu",
        num_threads=num_threads,
        engine="local",
    )


def recorded(config: RunConfig) -> list[Span]:
    """Returns what happens in the second iteration of a run, from 0 s on; the first warms up."""
    prepare(config)
    _worlds.clear()
    assert config.model is not None, "the recipe starts from what it ships"
    model, encoder = load_checkpoint(model_directory(config.model), dtype="float32")
    updates: list[Span] = []
    with tempfile.TemporaryDirectory() as directory:
        trainer = Trainer(config, model, encoder, Path(directory), None)
        sampling = SamplingSpans(trainer.agent, model.model)
        trainer.learner.update = _noted(trainer.learner.update, updates)  # type: ignore[method-assign]
        episodes = _kept(trainer)
        try:
            trainer.train_iteration()
            for each in (_questions, sampling.spans, updates, episodes):
                each.clear()
            started_s = time.perf_counter()
            trainer.train_iteration()
        finally:
            trainer.collector.close()
            trainer.scorer.close()
    worlds = world_spans(episodes)
    spans = [*sampling.spans, *worlds, *judge_spans(_questions, episodes, worlds), *updates]
    return [replace(each, start_s=each.start_s - started_s, end_s=each.end_s - started_s) for each in spans]


def _noted(update: Callable[..., Any], spans: list[Span]) -> Callable[..., Any]:
    """Returns the update, of which each call adds a span."""

    def noted(*args: Any, **kwargs: Any) -> Any:
        started_s = time.perf_counter()
        metrics = update(*args, **kwargs)
        spans.append(Span(kind=UPDATE, row=None, start_s=started_s, end_s=time.perf_counter()))
        return metrics

    return noted


def _kept(trainer: Trainer) -> list[Trajectory]:
    """Returns a list to which the episodes that are played are added from here on, in the order of their rows."""
    episodes: list[Trajectory] = []
    collect = trainer.collector.collect

    def kept(*args: Any, **kwargs: Any) -> Any:
        groups = collect(*args, **kwargs)
        episodes.extend(each for group in groups for each in group.trajectories)
        return groups

    trainer.collector.collect = kept  # type: ignore[method-assign]
    return episodes
