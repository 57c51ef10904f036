"""`python -m benchmarks sb3`: trains a policy of stable-baselines3, the classical RL baseline on a board."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from benchmarks.models.board.board_spec import WorldSpec
from vlm_envs.errors import ConfigError, EngineUnavailableError
from vlm_envs.registration import registered_name, require_available
from vlm_envs.requirements import install_command
from vlm_envs.validation import require_at_least


@dataclass(frozen=True, kw_only=True)
class Sb3Options:
    """Train stable-baselines3's PPO on a world's images and named actions: the classical RL baseline on a board.

    Trains on training levels; play the policy as sb3:DIR.

    Attributes:
        world: The world, as ID or ID:ARGUMENT=VALUE,...
        out: New directory for the policy.
        seed: Seed for weights, levels, and actions.
        timesteps: Actions to train on, rounded up to whole rollouts; None for the world's default.
    """

    world: Annotated[str, Positional, arg(metavar="WORLD")]
    out: Path
    seed: int = 0
    timesteps: int | None = None

    def __post_init__(self) -> None:
        require_at_least(self, 0, "seed")
        if self.timesteps is not None:
            require_at_least(self, 1, "timesteps")


_DEFAULTS: dict[str, Any] = {
    "timesteps": 300_000,
    "num_envs": 64,
    "n_steps": 96,
    "batch_size": 1_024,
    "n_epochs": 4,
    "downscale": 1,
    "cell_px": 0,
    "training_levels": {},
}
# Random actions solve almost no level with five or more moves, so training includes easier levels
_GRID = {"timesteps": 600_000, "downscale": 4, "cell_px": 7, "training_levels": {"min_solution_length": 1}}
_BY_WORLD: dict[str, dict[str, Any]] = {
    "VLM/FrozenLake-v0": _GRID,
    "VLM/Sokoban-v0": _GRID,
    "VLM/Navigation-v0": {"timesteps": 60_000, "num_envs": 16, "n_steps": 120, "batch_size": 480, "downscale": 5},
}
"""Settings of `agents.sb3_agent.train_policy`, tuned on FrozenLake's training and validation levels only."""


def run_sb3(options: Sb3Options) -> int:
    """Trains a policy and prints the command to play it.

    Raises:
        ConfigError: If the world does not exist or has no named actions, or the directory is not empty.
        EngineUnavailableError: If stable-baselines3 or the world's engine is missing.
    """
    world = WorldSpec.parse(options.world)
    env_id = registered_name(world.env_id)
    require_available(env_id)
    if options.out.exists() and (not options.out.is_dir() or any(options.out.iterdir())):
        raise ConfigError(f"{options.out} is not empty. Choose another directory with --out.")
    try:
        from agents.sb3_agent import train_policy  # needs an extra
    except ImportError as error:
        raise EngineUnavailableError(
            f"Training needs the package stable_baselines3, which is not installed. Run: {install_command('sb3')}"
        ) from error
    settings = {**_DEFAULTS, **_BY_WORLD.get(env_id, {})}
    if options.timesteps is not None:
        settings["timesteps"] = options.timesteps
    train_policy(env_id, world.kwargs, options.out, seed=options.seed, **settings)
    print(f"Play it: python -m benchmarks run --agent sb3:{options.out} --world {options.world} --out boards/NAME")
    return 0
