"""One tiny VLM in all worlds at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from agents.hf.sampling_config import SamplingConfig
from training.algorithms.gigpo import GiGPO
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
    frozenlake_tiny: 3.0,
    sokoban_tiny: 3.0,
    navigation_tiny: 2.5,
    primitive_tiny: 2.0,
    svg_tiny: 2.0,
    zoomqa_tiny: 1.0,
    docqa_tiny: 3.0,
    videoqa_tiny: 0.5,
    judging_tiny: 0.3,
}
"""The recipes of one world each whose worlds are mixed, and the weights of these in the cold start: more where most is
left to learn. A loss is a mean over tokens, so worlds of short responses need more of them to be heard at all.
Reinforcement learning begins with as much of each."""


PAID = {
    "VLM/SVG-v0": {"similarity_weight": 10.0},
    "VLM/ZoomQA-v0": {"answer_reward": 10.0},
    "VLM/DocQA-v0": {"answer_reward": 10.0},
    "VLM/VideoQA-v0": {"answer_reward": 10.0},
    "VLM/RewardJudging-v0": {"answer_reward": 10.0},
}
"""What is paid for differently than in a world's own recipe, so that success earns 10 in all of them, as it does in the
worlds that are not named."""


def mix_tiny() -> RunConfig:
    """All worlds of the other tiny recipes, one policy and one tokenizer; it needs the drivers of `make drivers`.

    Each world has the arguments that it has in its own recipe, but for what is paid, so that levels are the same,
    and the same expert, who tells no plan here. Success earns the same everywhere, and nothing is paid by turns but
    what the judge gives in the grid worlds. So siblings need not be divided by what they differ in, which would make
    as much of a step's cost as of success. Groups go where success is neither 0 nor 1. The cold start goes on from
    another, which ships too: of 8,000 steps, copying first and first turns then.
    """
    config = tiny_recipe(
        "mix_tiny",
        frozenlake_tiny().worlds[0],
        num_iterations=150,
        cold_start=ColdStartConfig(
            num_steps=5000,
            num_first_turn_steps=0,
            batch_size=12,
            start_from="training/recipes/checkpoints/mix_first_steps",
        ),
        max_new_tokens=96,
    )
    config = without_critic(config)
    return replace(
        config,
        worlds=_worlds(),
        model="training/recipes/checkpoints/mix_tiny",
        # Drawings are hardly ever exact, and are learnt all the same
        mix=MixConfig(schedule="success", min_factor=0.4),
        num_groups=36,
        algorithm=GiGPO(scale="none"),
        ppo=replace(config.ppo, warmup_iterations=4, final_learning_rate_ratio=0.3),
        sampling=SamplingConfig(max_new_tokens=max(recipe().sampling.max_new_tokens for recipe in SPECIALISTS)),
    )


def _worlds() -> tuple[WorldSpec, ...]:
    """Returns the world of each specialist, with what it pays, and its expert's weight and rate of suboptimal plans."""
    worlds = []
    for recipe, weight in SPECIALISTS.items():
        specialist = recipe()
        (world,) = specialist.worlds
        rate = specialist.cold_start.suboptimal_rate
        kwargs = {**world.kwargs, "format_reward": 0.0, **PAID.get(world.env_id, {})}
        worlds.append(replace(world, kwargs=kwargs, cold_start_weight=weight, cold_start_suboptimal_rate=rate))
    return tuple(worlds)
