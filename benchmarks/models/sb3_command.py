"""`python -m benchmarks sb3`: agents of Stable-Baselines3, trained on the levels of a board."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from agents.sb3_record import TrainedFor
from benchmarks.models.board.board_spec import WorldSpec
from benchmarks.models.sb3_settings import LEAST_WITHOUT_CELLS_PX, PPOSettings, settings_for
from vlm_envs.discrete_world import BLOCK_PX, Controls, Seeing
from vlm_envs.errors import ConfigError, EngineUnavailableError
from vlm_envs.registration import arguments_of, make, registered_name, require_available
from vlm_envs.requirements import install_command
from vlm_envs.statistics.success_rates import wilson_interval
from vlm_envs.validation import require_at_least

if TYPE_CHECKING:
    from benchmarks.models.sb3_training import TrainingPlan, Validation


@dataclass(frozen=True, kw_only=True)
class Sb3Options:
    """Train PPO of stable-baselines3 on a world's pictures and named actions: the classical row of a board.

    Trains on training levels and keeps the policy that solves most validation levels; it plays as sb3:DIR. What is not
    said is as in the table of benchmarks/models/sb3_settings.py.

    Attributes:
        world: What is played, as ID or ID:ARGUMENT=VALUE,...
        out: Folder for the policy; a new one.
        seed: Of weights, levels and choices.
        timesteps: Choices of an action to train on, rounded up to whole rollouts of 96 in each of the worlds.
        num_envs: Worlds side by side.
        learning_rate: At the start; it falls to 0.
        entropy_coef: What a nat of entropy is worth.
        downscale: Side of the square of pixels that becomes one.
        cell_px: Side of a cell of the scaled picture; 0 for pictures that are not made of cells.
        actions_per_response: Actions chosen at each picture; None for as many as the world takes.
        num_val_episodes: Validation levels on which policies are compared.
        num_validations: How often, evenly over the training.
    """

    world: Annotated[str, Positional, arg(metavar="WORLD")]
    out: Path
    seed: int = 0
    timesteps: int | None = None
    num_envs: int | None = None
    learning_rate: float | None = None
    entropy_coef: float | None = None
    downscale: int | None = None
    cell_px: int | None = None
    actions_per_response: int | None = None
    num_val_episodes: int = 256
    num_validations: int = 20

    def __post_init__(self) -> None:
        require_at_least(self, 0, "seed")
        require_at_least(self, 1, "num_val_episodes", "num_validations")

    def plan(self) -> TrainingPlan:
        """Returns what is trained.

        Raises:
            ConfigError: If there is no such world, it cannot be played by numbers, or a value does not fit.
            EngineUnavailableError: If stable-baselines3 or the world's engine is missing.
        """
        world = WorldSpec.parse(self.world)
        if self.out.exists() and (not self.out.is_dir() or any(self.out.iterdir())):
            raise ConfigError(f"{self.out} holds something already. Name another folder with --out.")
        settings = self._settings(registered_name(world.env_id))
        if importlib.util.find_spec("stable_baselines3") is None:
            raise EngineUnavailableError(
                f"Training needs the package stable_baselines3, which is not installed. Run: {install_command('sb3')}"
            )
        require_available(registered_name(world.env_id))
        trained_for = self._trained_for(world, settings)
        arguments_of(world.env_id, settings.training_levels)
        from benchmarks.models.sb3_training import TrainingPlan  # Only now: what it needs is an extra

        return TrainingPlan(
            world=world,
            trained_for=trained_for,
            settings=settings,
            out=self.out,
            seed=self.seed,
            num_val_episodes=self.num_val_episodes,
            num_validations=self.num_validations,
        )

    def _settings(self, env_id: str) -> PPOSettings:
        names = ("timesteps", "num_envs", "learning_rate", "entropy_coef", "downscale", "cell_px")
        said: Mapping[str, Any] = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return replace(settings_for(env_id), **said)

    def _trained_for(self, world: WorldSpec, settings: PPOSettings) -> TrainedFor:
        with closing(make(world.env_id, **world.kwargs, disable_env_checker=True)) as made:
            controls = Controls.of(made.unwrapped)  # type: ignore[arg-type]
        num_actions = controls.max_actions if self.actions_per_response is None else self.actions_per_response
        if not 1 <= num_actions <= controls.max_actions:
            raise ConfigError(
                f"--actions-per-response must be from 1 to {controls.max_actions}, as many as a response of "
                f"{world.label} holds; got {num_actions}."
            )
        seeing = Seeing.of(
            controls,
            actions_per_response=num_actions,
            downscale=settings.downscale,
            block_px=settings.cell_px or BLOCK_PX,
        )
        _require_cells(settings.cell_px, *seeing.shape(controls.picture_shape)[:2])
        return TrainedFor(
            env_id=registered_name(world.env_id),
            action_names=controls.action_names,
            picture_shape=controls.picture_shape,
            seeing=seeing,
            kwargs=world.kwargs,
        )


def _require_cells(cell_px: int, height: int, width: int) -> None:
    """Refuses cells that do not fill the scaled picture, and pictures that are too small for the network without."""
    if cell_px == 0 and min(height, width) < LEAST_WITHOUT_CELLS_PX:
        raise ConfigError(
            f"Pictures of {width} x {height} pixels are too small for a network without cells, which takes "
            f"{LEAST_WITHOUT_CELLS_PX} a side. Lower --downscale, or name the side of a cell with --cell-px."
        )
    if cell_px and (height % cell_px or width % cell_px):
        raise ConfigError(
            f"--cell-px must divide the sides of what is seen, {width} x {height} pixels after --downscale; "
            f"got {cell_px}."
        )


def run_sb3(options: Sb3Options) -> int:
    """Trains, and says how the policy that was kept does; 130 when interrupted."""
    plan = options.plan()
    from benchmarks.models.sb3_training import train

    def show(validation: Validation) -> None:
        told = f"{validation.timesteps:,} of {plan.settings.num_collected:,} choices"
        drawn = f"training {validation.training_success:.3f}"
        pace = validation.seconds / max(1, validation.timesteps)
        left = max(0, plan.settings.num_collected - validation.timesteps) * pace / 60
        print(f"{told}  {drawn}  {_told(validation)}  {left:.0f} min left", file=sys.stderr, flush=True)

    try:
        best = train(plan, show).best
    except KeyboardInterrupt:
        print(f"Interrupted. The best policy so far, if there is one, is in {plan.out}.", file=sys.stderr)
        raise
    print(f"Kept the policy of {best.timesteps:,} choices: {_told(best)}")
    print(f"Play it: python -m benchmarks run --agent sb3:{plan.out} --world {options.world} --out boards/NAME")
    return 0


def _told(validation: Validation) -> str:
    low, high = wilson_interval(validation.num_successes, validation.num_episodes)
    return f"validation {validation.num_successes / validation.num_episodes:.3f} ({low:.3f} to {high:.3f})"
