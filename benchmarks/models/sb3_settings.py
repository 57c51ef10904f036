"""How long and how a policy is trained, world by world."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from vlm_envs.validation import require, require_above, require_at_least, require_between

LEAST_WITHOUT_CELLS_PX = 36
"""Side of the smallest picture that the network of Mnih et al. (2015) takes."""


@dataclass(frozen=True, kw_only=True)
class PPOSettings:
    """Proximal policy optimisation, and what its policy sees.

    Attributes:
        timesteps: Choices of an action that are collected; a response takes one or several.
        num_envs: Worlds side by side.
        num_steps: Choices in each world between updates.
        minibatch_size: Choices of one gradient step.
        num_epochs: Passes over what was collected.
        learning_rate: Of Adam at the start; it falls to 0 over the training.
        gamma: Discount of a choice.
        gae_lambda: Of generalised advantage estimation.
        entropy_coef: What a nat of entropy is worth.
        clip: Of the probability ratio.
        downscale: Side of the square of pixels that becomes one; 1 for none.
        cell_px: Side of a cell of the scaled picture, of which the network makes one vector; 0 takes the network of
            Mnih et al. (2015), for pictures that are not made of cells.
        width: Channels of the network's layers.
        num_layers: Convolutions over cells and their neighbours.
        features_dim: Numbers that both heads, actions and value, read.
        training_levels: Arguments of the world in which its training levels differ from those it is played with, such
            as easier ones among them.
    """

    timesteps: int = 300_000
    num_envs: int = 64
    num_steps: int = 96
    minibatch_size: int = 1_024
    num_epochs: int = 4
    learning_rate: float = 1e-3
    gamma: float = 0.99
    gae_lambda: float = 0.95
    entropy_coef: float = 0.02
    clip: float = 0.2
    downscale: int = 1
    cell_px: int = 0
    width: int = 32
    num_layers: int = 2
    features_dim: int = 256
    training_levels: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def num_collected(self) -> int:
        """Choices that are collected in the end: whole rollouts of `num_envs * num_steps`."""
        rollout = self.num_envs * self.num_steps
        return -(-self.timesteps // rollout) * rollout

    def __post_init__(self) -> None:
        require_at_least(self, 1, "timesteps", "num_envs", "num_epochs", "downscale", "width", "features_dim")
        require_at_least(self, 2, "num_steps", "minibatch_size")
        require_at_least(self, 0, "entropy_coef", "cell_px", "num_layers")
        require_above(self, 0, "learning_rate", "clip")
        require_between(self, 0, 1, "gamma", "gae_lambda")
        require(
            self.num_envs * self.num_steps % self.minibatch_size != 1,
            f"minibatch_size must not leave one of {self.num_envs * self.num_steps} choices (num_envs * num_steps) "
            f"over; got {self.minibatch_size}.",
        )


_GRID = PPOSettings(timesteps=600_000, downscale=4, cell_px=7, training_levels={"min_solution_length": 1})
"""A choice takes about a millisecond of one core."""

SETTINGS: Mapping[str, PPOSettings] = {
    "VLM/FrozenLake-v0": _GRID,
    "VLM/Sokoban-v0": _GRID,
    "VLM/Navigation-v0": PPOSettings(timesteps=60_000, num_envs=16, num_steps=120, minibatch_size=480, downscale=5),
}
"""By world. Levels that take one move are trained on, too: of those with five and more, chance solves next to none.

The network, the learning rate and the form of the choices were tried on FrozenLake's training and validation levels
only; Sokoban takes what was found there, and Navigation's were not searched for.
"""


def settings_for(env_id: str) -> PPOSettings:
    """Returns a world's settings; of one that is not in the table, the defaults."""
    return SETTINGS.get(env_id, PPOSettings())
