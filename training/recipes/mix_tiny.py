"""One tiny VLM in all worlds at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from agents.hf.sampling import SamplingConfig
from training.config.run import RunConfig
from training.config.supervised.cold_start import ColdStartConfig
from training.config.worlds.mix import MixConfig
from training.config.worlds.spec import WorldSpec
from training.recipes.tiny import (
    docqa_tiny,
    frozenlake_tiny,
    judging_tiny,
    navigation_tiny,
    primitive_tiny,
    sokoban_tiny,
    svg_tiny,
    tiny_recipe,
    videoqa_tiny,
    without_critic,
    zoomqa_tiny,
)

SPECIALISTS: dict[Callable[[], RunConfig], float] = {
    frozenlake_tiny: 3.5,
    sokoban_tiny: 3.0,
    navigation_tiny: 1.0,
    primitive_tiny: 1.0,
    svg_tiny: 1.0,
    zoomqa_tiny: 0.75,
    docqa_tiny: 0.75,
    videoqa_tiny: 0.25,
    judging_tiny: 0.75,
}
"""The recipes of one world each whose worlds are mixed, and the weights of these in the cold start: more where
imitation takes longer. Reinforcement learning begins with as much of each."""


def mix_tiny() -> RunConfig:
    """All worlds of the other tiny recipes, one policy and one tokenizer; it needs the drivers of `make drivers`.

    Each world has the arguments that it has in its own recipe, but for pay by turns, so that levels are the same, and
    the same expert. Groups go where success is neither 0 nor 1. So far it falls short of its specialists everywhere,
    and reinforcement learning has not helped: see docs/mix.md.
    """
    config = tiny_recipe(
        "mix_tiny",
        frozenlake_tiny().worlds[0],
        num_iterations=20,
        cold_start=ColdStartConfig(
            num_steps=9000,
            num_copying_steps=900,
            num_first_turn_steps=2400,
            batch_size=12,
            residual_scale=0.15,
        ),
        max_new_tokens=96,
    )
    config = without_critic(config)
    return replace(
        config,
        worlds=_worlds(),
        model="training/recipes/checkpoints/mix_tiny",
        mix=MixConfig(schedule="success"),
        num_groups=24,
        ppo=replace(config.ppo, warmup_iterations=4, final_learning_rate_ratio=0.3),
        sampling=SamplingConfig(max_new_tokens=max(recipe().sampling.max_new_tokens for recipe in SPECIALISTS)),
    )


def _worlds() -> tuple[WorldSpec, ...]:
    """Returns the world of each specialist, with its weight and its expert's rate of suboptimal plans.

    None pays for turns in the format: siblings are compared, and those that took more of them would be ahead.
    """
    worlds = []
    for recipe, weight in SPECIALISTS.items():
        specialist = recipe()
        (world,) = specialist.worlds
        rate = specialist.cold_start.suboptimal_rate
        kwargs = {**world.kwargs, "format_reward": 0.0}
        worlds.append(replace(world, kwargs=kwargs, cold_start_weight=weight, cold_start_suboptimal_rate=rate))
    return tuple(worlds)
