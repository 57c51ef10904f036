"""Recipes for the tiny VLM on two CPU cores. The same trainer, worlds and judges as for larger models."""

from __future__ import annotations

from agents.hf.sampler import SamplingConfig
from training.config import (
    AdvantageConfig,
    ColdStartConfig,
    JudgeConfig,
    PPOConfig,
    RunConfig,
    WorldSpec,
)

_STRUCTURED = {
    "prompt_format": "grounding_worldmodeling",
    "representation": "structured",
    "prompt_example": False,  # the tiny VLM has learnt how states are written; tokens saved are time saved
}


def frozenlake_tiny() -> RunConfig:
    """FrozenLake 4x4 with grounding and world modelling: `make train`."""
    return RunConfig(
        name="frozenlake_tiny",
        worlds=(WorldSpec(env_id="VLM/FrozenLake-v0", kwargs=dict(_STRUCTURED)),),
        num_iterations=60,
        num_groups=32,
        group_size=4,
        sampling=SamplingConfig(max_new_tokens=96),
        judge=JudgeConfig(),
        advantage=_advantage(),
        ppo=_ppo(),
        cold_start=ColdStartConfig(num_steps=1500, num_first_turn_steps=600, careless_rate=0.8),
    )


def sokoban_tiny() -> RunConfig:
    """Sokoban 6x6 with one box, with grounding and world modelling."""
    return RunConfig(
        name="sokoban_tiny",
        worlds=(WorldSpec(env_id="VLM/Sokoban-v0", kwargs=dict(_STRUCTURED)),),
        num_iterations=100,
        num_groups=32,
        group_size=4,
        sampling=SamplingConfig(max_new_tokens=96),
        judge=JudgeConfig(),
        advantage=_advantage(),
        ppo=_ppo(),
        cold_start=ColdStartConfig(num_steps=1200, num_first_turn_steps=700),
    )


def _advantage() -> AdvantageConfig:
    """Bi-level GAE. The prompt counts the turns down, so running out of them is an end, not an accident."""
    return AdvantageConfig(
        estimator="bilevel_gae",
        variant="released",
        gamma_turn=0.95,
        lambda_turn=0.95,
        bootstrap_truncated=False,
    )


def _ppo() -> PPOConfig:
    return PPOConfig(
        learning_rate=1e-4,
        critic_learning_rate=1e-3,
        critic_warmup_iterations=3,
        num_minibatches=4,
        micro_batch_size=16,
        value_clip=None,
        kl_coef=0.001,
        old_logprobs="sampler",
    )
