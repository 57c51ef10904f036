"""Recipes of several stages for the tiny VLM."""

from __future__ import annotations

from dataclasses import replace

from training.config.run import RunConfig
from training.config.stages import STAGE_BEFORE, Stage, StagesConfig
from training.recipes.tiny import zoomqa_tiny


def zoomqa_stages_tiny() -> StagesConfig:
    """ZoomQA in Mags-RL's two stages: find the place with precision, then with recall. Cold start included.

    Between them change what the paper changes: the prompts, the reward for zooming, the rate, a quarter of the first
    stage's, and what the policy is held to, by 0.04 to what it began with and by 0.03 to what the first stage made.
    The second has three quarters of the first one's iterations, as 225 of 300, and other levels. Temperatures are 1 in
    both.
    """
    return StagesConfig(
        name="zoomqa_stages_tiny",
        stages=(
            Stage(name="precision", run=_of_stage(1, num_iterations=40, learning_rate=1e-4, kl_coef=0.04)),
            Stage(
                name="recall",
                run=replace(
                    _of_stage(2, num_iterations=30, learning_rate=2.5e-5, kl_coef=0.03), model=STAGE_BEFORE, seed=1
                ),
                reference="reset",
            ),
        ),
    )


def _of_stage(number: int, *, num_iterations: int, learning_rate: float, kl_coef: float) -> RunConfig:
    """Returns `zoomqa_tiny` with the prompts and the reward of one of the paper's stages."""
    config = zoomqa_tiny()
    (world,) = config.worlds
    return replace(
        config,
        worlds=(replace(world, kwargs={**world.kwargs, "mags_stage": number}),),
        num_iterations=num_iterations,
        judge=replace(config.judge, episode_reward=f"mags_stage_{number}"),
        ppo=replace(config.ppo, learning_rate=learning_rate, kl_coef=kl_coef),
    )
