"""Trains a policy on a world's training levels, and keeps the one that does best on validation levels."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.utils import LinearSchedule
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecMonitor, VecNormalize

from agents.rollout import play_episodes
from agents.sb3_agent import CellNetwork, PolicyAgent
from agents.sb3_record import MODEL, TrainedFor, save_record
from benchmarks.models.board.board_spec import WorldSpec
from benchmarks.models.board.verification import versions
from benchmarks.models.sb3_settings import PPOSettings
from vlm_envs.discrete_world import DiscreteWorld
from vlm_envs.records.json_lines import replace_file
from vlm_envs.registration import make
from vlm_envs.splits import split_seeds
from vlm_envs.vector.make_vec import world_vector

_RECENT_EPISODES = 1_000
_VALIDATION_ENVS = 32


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """What is trained, and where it goes.

    Attributes:
        world: What is played.
        trained_for: How the policy sees it and acts in it.
        settings: Of PPO.
        out: A folder that holds nothing yet.
        seed: Of weights, levels and choices.
        num_val_episodes: Validation levels on which policies are compared.
        num_validations: How often, evenly over the training.
    """

    world: WorldSpec
    trained_for: TrainedFor
    settings: PPOSettings
    out: Path
    seed: int = 0
    num_val_episodes: int = 256
    num_validations: int = 20


@dataclass(frozen=True, kw_only=True)
class Validation:
    """What a policy did on validation levels.

    Attributes:
        timesteps: Choices it was trained on.
        num_episodes: Levels.
        num_successes: Of these, solved.
        reward: Mean return.
        training_success: Share of the last training episodes that were solved, with actions drawn.
        seconds: Since the training began.
    """

    timesteps: int
    num_episodes: int
    num_successes: int
    reward: float
    training_success: float
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Trained:
    """How a training went.

    Attributes:
        best: Of the policy that was kept.
        validations: All, in their order.
    """

    best: Validation
    validations: tuple[Validation, ...]


def train(plan: TrainingPlan, on_validation: Callable[[Validation], None] = lambda validation: None) -> Trained:
    """Trains a policy; the best one so far is in the plan's folder after every validation.

    Equal plans give equal policies on one machine with the same number of threads.

    Args:
        plan: What to do.
        on_validation: Called after each validation.
    """
    with closing(_training_worlds(plan)) as worlds, closing(_validation_worlds(plan)) as validation_worlds:
        model = _model(plan, worlds)
        keeper = _Keeper(plan, validation_worlds, on_validation)
        model.learn(plan.settings.timesteps, callback=keeper)
    assert keeper.best is not None, "the end of a training is validated"
    return Trained(best=keeper.best, validations=tuple(keeper.validations))


def _training_worlds(plan: TrainingPlan) -> VecEnv:
    kwargs = {**plan.world.kwargs, **plan.settings.training_levels}
    env_fn = partial(_training_world, plan.world.env_id, plan.trained_for, kwargs)
    worlds = VecMonitor(DummyVecEnv([env_fn] * plan.settings.num_envs), info_keywords=("success",))
    # Errors of returns of 10 would drown the policy's loss
    return VecNormalize(worlds, norm_obs=False, gamma=plan.settings.gamma)


def _training_world(env_id: str, trained_for: TrainedFor, kwargs: dict[str, Any]) -> gym.Env[Any, Any]:
    world = make(env_id, **kwargs, split="train", disable_env_checker=True)
    seeing = trained_for.seeing
    numbers = DiscreteWorld(
        world,
        actions_per_response=seeing.actions_per_response,
        downscale=seeing.downscale,
        block_px=seeing.block_px,
    )
    return _ForPPO(numbers)


class _ForPPO(gym.Wrapper[Any, Any, Any, Any]):
    """An episode as PPO of stable-baselines3 should see it.

    A turn budget that runs out is the end: worth nothing from then on. As a truncation it would be paid the value that
    its last picture has at the start of an episode, and failing would pay as much as success.

    Of `info` only what is counted is left: all of it would be copied deeply, which takes as long as the world does.
    """

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated or truncated, False, {"success": info["success"]}


def _validation_worlds(plan: TrainingPlan) -> Any:
    num_envs = min(_VALIDATION_ENVS, plan.num_val_episodes)
    return world_vector(plan.world.env_id, num_envs, **plan.world.kwargs, split="val")


def _model(plan: TrainingPlan, worlds: VecEnv) -> PPO:
    settings = plan.settings
    network: dict[str, Any] = {}
    if settings.cell_px:
        sizes = {name: getattr(settings, name) for name in ("cell_px", "width", "num_layers", "features_dim")}
        network = {"features_extractor_class": CellNetwork, "features_extractor_kwargs": sizes}
    return PPO(
        "CnnPolicy",
        worlds,
        n_steps=settings.num_steps,
        batch_size=min(settings.minibatch_size, settings.num_envs * settings.num_steps),
        n_epochs=settings.num_epochs,
        learning_rate=LinearSchedule(settings.learning_rate, 0.0, 1.0),
        gamma=settings.gamma,
        gae_lambda=settings.gae_lambda,
        ent_coef=settings.entropy_coef,
        clip_range=settings.clip,
        policy_kwargs=network,
        stats_window_size=_RECENT_EPISODES,
        seed=plan.seed,
        device="cpu",  # Small networks, and pictures that are made here: a GPU would wait
    )


class _Keeper(BaseCallback):
    """Plays validation levels now and then, and saves the policy where none before was better."""

    def __init__(self, plan: TrainingPlan, worlds: Any, on_validation: Callable[[Validation], None]) -> None:
        super().__init__()
        self.validations: list[Validation] = []
        self.best: Validation | None = None
        self._plan, self._worlds, self._on_validation = plan, worlds, on_validation
        self._interval = max(1, plan.settings.timesteps // plan.num_validations)
        self._began = time.monotonic()

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:  # The first policy that has learned from what was collected until here
        last = self.validations[-1].timesteps if self.validations else 0
        if self.num_timesteps - last >= self._interval:
            self._validate()

    def _on_training_end(self) -> None:
        if not self.validations or self.validations[-1].timesteps < self.num_timesteps:
            self._validate()

    def _validate(self) -> None:
        policy = self.model.policy
        validation = self._played(PolicyAgent(policy, self._plan.trained_for))  # type: ignore[arg-type]
        self.validations.append(validation)
        is_best = self.best is None or _worth(validation) > _worth(self.best)
        if is_best:
            self.best = validation
            content = io.BytesIO()
            self.model.save(content)
            replace_file(self._plan.out / MODEL, content.getvalue())
        facts = {
            "settings": self._plan.settings,
            "seed": self._plan.seed,
            "best": self.best,
            "validations": self.validations,
            "versions": versions(),
            "threads": torch.get_num_threads(),
        }
        save_record(self._plan.out, self._plan.trained_for, facts)
        self._on_validation(validation)

    def _played(self, agent: PolicyAgent) -> Validation:
        seeds = list(split_seeds("val", self._plan.num_val_episodes))
        played = play_episodes(agent, self._worlds, seeds, env_id=self._plan.trained_for.env_id)
        episodes = [episode for _, episode in played if episode is not None]
        recent = [bool(each["success"]) for each in self.model.ep_info_buffer or ()]
        return Validation(
            timesteps=self.num_timesteps,
            num_episodes=len(episodes),
            num_successes=sum(episode.success for episode in episodes),
            reward=float(np.mean([episode.total_reward for episode in episodes])),
            training_success=float(np.mean(recent)) if recent else 0.0,
            seconds=time.monotonic() - self._began,
        )


def _worth(validation: Validation) -> tuple[float, float]:
    return validation.num_successes / validation.num_episodes, validation.reward
