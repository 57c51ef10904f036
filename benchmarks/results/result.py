"""What a run came to on test levels, beside its start and its lazy rival, and what its judges said on the way."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import replace_file

_PAIRS = ("told", "greedy", "looked")
"""What is known of both the start and the policy, if of one: `told_before` and `told_after`, and so on."""


@dataclass(frozen=True, kw_only=True)
class WorldResult:
    """One world of a run.

    Attributes:
        world: What the run calls it.
        env_id: Its id.
        kwargs: Its arguments.
        measure: What each level is measured by: `success`, or one of the world's metrics.
        levels: What tells test levels apart, in the order of the split: small worlds have some more than once.
        before: Of the start on each test level.
        after: Of the policy that was trained.
        lazy: Of the same responses in every episode, whatever is shown.
        expert: Of the expert whom the start has imitated; None where nobody measured it, and where there is none.
        blind: Of the policy, if every picture is grey; None where nobody measured it, or nothing is shown.
        told_before: Of the start, if the true state is written for it in each turn; None where no format has a place.
        told_after: Of the policy, likewise.
        greedy_before: Of the start, if it takes the most probable token at each place, in place of drawing; None where
            nobody measured it.
        greedy_after: Of the policy, likewise.
        looked_before: Of the start, whether a tool was called and did its work, 1 or 0 a level; None where nobody kept
            it, and where there are none.
        looked_after: Of the policy, likewise.
        num_episodes: Of a mix: how many episodes of this world were played for training; None of other runs.
        curve: Of a mix: what a run's `curve` has, of this world alone; empty of other runs, and where nobody kept it.
    """

    world: str
    env_id: str
    kwargs: dict[str, Any]
    measure: str
    levels: list[str]
    before: list[float]
    after: list[float]
    lazy: list[float]
    expert: list[float] | None = None
    blind: list[float] | None = None
    told_before: list[float] | None = None
    told_after: list[float] | None = None
    greedy_before: list[float] | None = None
    greedy_after: list[float] | None = None
    looked_before: list[float] | None = None
    looked_after: list[float] | None = None
    num_episodes: int | None = None
    curve: list[dict[str, float]] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Result:
    """A run.

    Attributes:
        recipe: Its name.
        title: How it was trained.
        seed: Its seed.
        setup: Digest of the settings that training depends on and of the weights it started from, the seed aside: runs
            with the same are seeds of each other. Empty where nobody kept it; such a run has none.
        num_parameters: Of the policy.
        num_iterations: Iterations trained for.
        num_episodes: Episodes it played for training.
        minutes: That the iterations took, without evaluations.
        worlds: What it came to in each.
        curve: Means of some iterations each: `iteration`, the worlds' measures, and where there are any the judges'
            scores, `observation` and `prediction`, the `thought` score and `tool_used`, the share of episodes.
        made_by: Command, commit and versions.
        temperature: At which all evaluations drew their responses; 0 is greedy.
    """

    recipe: str
    title: str
    seed: int
    setup: str
    num_parameters: int
    num_iterations: int
    num_episodes: int
    minutes: float
    worlds: list[WorldResult]
    curve: list[dict[str, float]] = field(default_factory=list)
    made_by: dict[str, Any] = field(default_factory=dict)
    temperature: float = 1.0

    def save(self, path: Path) -> None:
        """Writes it as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, (json.dumps(asdict(self)) + "\n").encode())

    @classmethod
    def load(cls, path: Path) -> Result:
        """Returns what `save` wrote.

        Raises:
            ConfigError: If it cannot be read, or was written by a version that kept less.
        """
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            result = cls(**kept | {"worlds": [WorldResult(**each) for each in kept["worlds"]]})
            _require_whole(result)
            return result
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            raise ConfigError(f"{path} is no result that this version reads: {error!r}.") from error


def _require_whole(result: Result) -> None:
    """Raises `ValueError` or `TypeError` where a result lacks what tables are made of."""
    for name, value in {"seed": result.seed, "minutes": result.minutes, "temperature": result.temperature}.items():
        if not math.isfinite(value):
            raise ValueError(f"its {name} is no number")
    if not (isinstance(result.recipe, str) and isinstance(result.setup, str) and result.worlds):
        raise ValueError("it has no recipe, no setup or no world")
    for world in result.worlds:
        if not all(isinstance(each, str) for each in (world.world, world.env_id, world.measure)):
            raise ValueError("a world has no name, id or measure")
        if not (
            isinstance(world.levels, list) and world.levels and all(isinstance(each, str) for each in world.levels)
        ):
            raise ValueError(f"{world.world} has no levels")
        pairs = [getattr(world, f"{name}_{when}") for name in _PAIRS for when in ("before", "after")]
        known = [each for each in (world.expert, world.blind, *pairs) if each is not None]
        played = [world.before, world.after, world.lazy, *known]
        if {*map(len, played)} != {len(world.levels)}:
            raise ValueError(f"not as many outcomes as levels in {world.world}")
        if not all(math.isfinite(outcome) for outcomes in played for outcome in outcomes):
            raise ValueError(f"an outcome in {world.world} is no number")
