"""A run with a critic and a reference of its own, whatever the recipes that ship have."""

from __future__ import annotations

from dataclasses import replace

from training.config.run_config import RunConfig
from training.recipes.tiny import sokoban_tiny


def with_own_critic() -> RunConfig:
    """Returns Sokoban's recipe with three models: the policy, a critic and a reference."""
    config = sokoban_tiny()
    return replace(
        config,
        num_iterations=90,
        num_groups=32,
        group_size=4,
        algorithm=config.algorithm.with_critic(trunk="own", warmup_iterations=2, num_minibatches=16),
        ppo=replace(config.ppo, kl_coef=0.001),
    )
