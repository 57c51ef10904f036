"""A staged run: imitate recorded episodes, explore, then settle at a lower learning rate.

Curate `runs/lake` as in docs/training.md, "Fine-tune on datasets", then train:
python -m training --recipe examples/lake_stages.py:lake_stages
"""

from __future__ import annotations

from dataclasses import replace

from training.config.run_config import RunConfig
from training.recipes.tiny import frozenlake_tiny
from training.sft.sft_config import SFTConfig
from training.stages.stages_config import STAGE_BEFORE, Stage, StagesConfig

START = "training/recipes/checkpoints/frozenlake_tiny"


def lake_stages() -> StagesConfig:
    """Fine-tuning, then two stages of reinforcement learning, the last with the fine-tuned model as its reference."""
    imitate = SFTConfig(model=START, data=("runs/lake",), num_epochs=1.0, learning_rate=5e-4)
    settle = reinforced(temperature=0.7, learning_rate=2.5e-5, kl_coef=0.01)
    return StagesConfig(
        name="lake_stages",
        stages=(
            Stage(name="sft", run=imitate),
            Stage(name="explore", run=reinforced(temperature=1.0, learning_rate=1e-4, kl_coef=0.001)),
            Stage(name="accuracy", run=settle, reference="kept"),
        ),
    )


def reinforced(*, temperature: float, learning_rate: float, kl_coef: float) -> RunConfig:
    """Returns five iterations of `frozenlake_tiny` that start from the previous stage's model."""
    config = frozenlake_tiny()
    return replace(
        config,
        model=STAGE_BEFORE,
        num_iterations=5,
        num_eval_episodes=64,
        sampling=replace(config.sampling, temperature=temperature),
        ppo=replace(config.ppo, learning_rate=learning_rate, kl_coef=kl_coef),
    )
