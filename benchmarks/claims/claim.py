"""The claims that are put to the test: a world, an expert, and how much of it there is to imitate."""

from __future__ import annotations

from dataclasses import dataclass, replace

from training.config.run_config import RunConfig
from training.recipes.shipped import RECIPES
from vlm_envs.errors import ConfigError
from vlm_envs.validation import did_you_mean


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One setting in which reinforcement learning is held against imitation.

    Both arms go on from one start, which has imitated the expert. One is trained by the recipe; the other imitates the
    same demonstrations for about as many CPU seconds, with a learning rate that rises to its peak again and
    falls over all of them.

    Attributes:
        title: What it is about, for people.
        recipe: Whose world and reinforcement learning it is.
        num_steps: Steps of imitation of the start, which begins with random weights; None for the start that the recipe
            is shipped with.
        num_first_turn_steps: How many of them show first turns only.
        suboptimal_rate: See `ColdStartConfig`; None for the recipe's own expert, who may tell its plan.
        num_demonstrations: See `ColdStartConfig`.
        num_iterations: Of reinforcement learning, over which its learning rate falls; None for the recipe's own.
        num_points: Validations of each arm, about.
    """

    title: str
    recipe: str
    num_steps: int | None
    num_first_turn_steps: int = 0
    suboptimal_rate: float | None = 0.0
    num_demonstrations: int | None = None
    num_iterations: int | None = None
    num_points: int = 14

    def config(self, *, seed: int) -> RunConfig:
        """Returns the run of reinforcement learning, with what makes its start; nothing of it is evaluated yet."""
        recipe = RECIPES[self.recipe]()
        cold_start = replace(recipe.cold_start, num_demonstrations=self.num_demonstrations)
        if self.suboptimal_rate is not None:
            cold_start = replace(cold_start, suboptimal_rate=self.suboptimal_rate, tells_plan=False)
        if self.num_steps is not None:
            cold_start = replace(
                cold_start,
                num_steps=self.num_steps,
                num_first_turn_steps=self.num_first_turn_steps,
                start_from=None,
            )
        return replace(
            recipe,
            num_iterations=recipe.num_iterations if self.num_iterations is None else self.num_iterations,
            seed=seed,
            model=recipe.model if self.num_steps is None else None,
            cold_start=cold_start,
            device="cpu",
            num_threads=1,
            num_eval_episodes=0,
            record_every=0,
        )


_FROZEN_LAKE_START = {"num_steps": 6000, "num_first_turn_steps": 1200}
_SOKOBAN_START = {"num_steps": 4500, "num_first_turn_steps": 1500}
"""Steps until few episodes teach little more: 40 to 50 minutes of one core in FrozenLake, 50 to 55 in Sokoban."""

_FROZEN_LAKE_ITERATIONS = 80
"""Five minutes of one core; two thirds of the recipe's."""

_SOKOBAN_ITERATIONS = 120
"""Twelve minutes of one core or more. The recipe has as many again, in which success in training rises on, by 0.02."""
_SOKOBAN_FEWER_ITERATIONS = 60
"""Six minutes of one core, about as in FrozenLake."""
_SOKOBAN_POINTS = 8
"""A validation takes twenty seconds there."""

CLAIMS = {
    "frozenlake_suboptimal": Claim(
        title="FrozenLake, an expert that overlooks holes in three of ten turns",
        recipe="frozenlake_tiny",
        num_steps=None,
        suboptimal_rate=None,
        num_iterations=_FROZEN_LAKE_ITERATIONS,
    ),
    "frozenlake_500": Claim(
        title="FrozenLake, 500 episodes of an optimal expert",
        recipe="frozenlake_tiny",
        **_FROZEN_LAKE_START,
        num_demonstrations=500,
        num_iterations=_FROZEN_LAKE_ITERATIONS,
    ),
    "frozenlake_2000": Claim(
        title="FrozenLake, 2,000 episodes of an optimal expert",
        recipe="frozenlake_tiny",
        **_FROZEN_LAKE_START,
        num_demonstrations=2000,
        num_iterations=_FROZEN_LAKE_ITERATIONS,
    ),
    "frozenlake_unlimited": Claim(
        title="FrozenLake, unlimited episodes of an optimal expert",
        recipe="frozenlake_tiny",
        **_FROZEN_LAKE_START,
        num_iterations=_FROZEN_LAKE_ITERATIONS,
    ),
    "sokoban_suboptimal": Claim(
        title="Sokoban, an expert that overlooks inner walls in half of its turns",
        recipe="sokoban_tiny",
        num_steps=None,
        suboptimal_rate=None,
        num_iterations=_SOKOBAN_ITERATIONS,
        num_points=_SOKOBAN_POINTS,
    ),
    "sokoban_500": Claim(
        title="Sokoban, 500 episodes of an optimal expert",
        recipe="sokoban_tiny",
        **_SOKOBAN_START,
        num_demonstrations=500,
        num_iterations=_SOKOBAN_FEWER_ITERATIONS,
        num_points=_SOKOBAN_POINTS,
    ),
    "sokoban_2000": Claim(
        title="Sokoban, 2,000 episodes of an optimal expert",
        recipe="sokoban_tiny",
        **_SOKOBAN_START,
        num_demonstrations=2000,
        num_iterations=_SOKOBAN_FEWER_ITERATIONS,
        num_points=_SOKOBAN_POINTS,
    ),
    "sokoban_unlimited": Claim(
        title="Sokoban, unlimited episodes of an optimal expert",
        recipe="sokoban_tiny",
        **_SOKOBAN_START,
        num_iterations=_SOKOBAN_FEWER_ITERATIONS,
        num_points=_SOKOBAN_POINTS,
    ),
}
"""By name. How long each takes, `ClaimsOptions` tells, of which its users ask."""


def claim_named(name: str) -> Claim:
    """Returns a claim; raises `ConfigError` where there is none of that name."""
    if name not in CLAIMS:
        raise ConfigError(f"Unknown claim {name!r}.{did_you_mean(name, CLAIMS)} Known: {', '.join(CLAIMS)}.")
    return CLAIMS[name]
