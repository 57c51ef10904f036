"""Settings of level pools: which levels a run plays, and how a pool is drawn."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from agents.hf.sampling_config import SamplingConfig
from vlm_envs.validation import field_name, require, require_at_least, require_between, require_choice

OWN_POOLS = "pools"
"""Folder of a run with the pools that it has drawn itself."""
ORDERS = ("shuffled", "easiest_first")
"""Orders in which an epoch goes through a pool."""


@dataclass(frozen=True, kw_only=True)
class PoolConfig:
    """A pool as one world of a mix takes it: a file of levels, and which of its rows.

    A level's pass rate is `passes / attempts` of its row, as `python -m training pool --agent` counts them.

    Attributes:
        file: JSON lines, a level each: `{"id": TEXT, "solution_length": 6, "attempts": 5, "passes": 2}`, of which only
            `id` is always needed. Of a pool that the run draws itself, a name in the folder `pools` of the run.
        draw: Levels that the run draws for it when it begins; 0 for a file that is there.
        attempts: How often the model that the run starts from plays each of these first, with the run's sampling, so
            that filters know how often it passes; of several worlds with this file the first one is played. Levels that
            other filters drop are not played.
        min_pass_rate: Least pass rate of a level that is taken, from 0 to 1.
        max_pass_rate: Largest one.
        drop_hopeless: Whether levels are left out that no attempt solved.
        drop_trivial: Whether levels are left out that every attempt solved.
        min_solution_length: Fewest actions of the shortest solution of a level that is taken.
        max_solution_length: Most of them.
        include: File of ids that alone are taken: another pool, or an id a line. None for all.
        exclude: Files of ids that are not taken, such as the pool of another stage. In a staged run, a pool that its
            stage draws takes `stage:NAME`, too: none of the levels that the earlier curation NAME keeps.
        order: How an epoch goes through the levels: `shuffled` anew each time, or `easiest_first`: by falling pass
            rate, then by growing length of the shortest solution, the same ones shuffled.
    """

    file: str
    draw: int = 0
    attempts: int = 0
    min_pass_rate: float | None = None
    max_pass_rate: float | None = None
    drop_hopeless: bool = False
    drop_trivial: bool = False
    min_solution_length: int | None = None
    max_solution_length: int | None = None
    include: str | None = None
    exclude: tuple[str, ...] = ()
    order: Literal["shuffled", "easiest_first"] = "shuffled"

    def __post_init__(self) -> None:
        require(bool(self.file), f"{field_name(self, 'file')} must name a file of levels; got {self.file!r}.")
        require_between(self, 0, 1, "min_pass_rate", "max_pass_rate")
        require_at_least(self, 0, "draw", "attempts", "min_solution_length", "max_solution_length")
        self._require_drawn()
        require_choice(field_name(self, "order"), self.order, ORDERS)
        for what in ("pass_rate", "solution_length"):
            low, high = getattr(self, f"min_{what}"), getattr(self, f"max_{what}")
            require(
                low is None or high is None or low <= high,
                f"{field_name(self, f'min_{what}')} {low} is above {field_name(self, f'max_{what}')} {high}: no level "
                "is in such a band.",
            )

    def _require_drawn(self) -> None:
        """Refuses what does not go with who draws the pool."""
        attempts = field_name(self, "attempts")
        require(
            self.draw == 0 or Path(self.file).name == self.file,
            f"A pool that the run draws is in the run's own folder, so {field_name(self, 'file')} must be a name; got "
            f"{self.file!r}.",
        )
        require(
            self.draw == 0 or self.attempts > 0 or not self.reads_pass_rates,
            f"The pool {self.file} is filtered by how often its levels are solved, and nobody plays them. Use "
            f"{attempts} 5, or leave those filters out.",
        )
        require(
            self.draw == 0
            or self.attempts == 0
            or None in [self.drops_passes(passes, self.attempts) for passes in range(self.attempts + 1)],
            f"With {attempts} {self.attempts} every pass rate is a multiple of 1/{self.attempts}, and filters of the "
            f"pool {self.file} take none of these. Widen the band, leave out drop_hopeless or drop_trivial, or use "
            f"more {attempts}.",
        )

    def drops_passes(self, passes: int, attempts: int) -> str | None:
        """Returns the filter that drops a level which so many of its attempts solve; None if none does."""
        rate = passes / attempts
        drops = {
            "drop_hopeless": self.drop_hopeless and passes == 0,
            "drop_trivial": self.drop_trivial and passes == attempts,
            "min_pass_rate": self.min_pass_rate is not None and rate < self.min_pass_rate,
            "max_pass_rate": self.max_pass_rate is not None and rate > self.max_pass_rate,
        }
        return next((name for name, is_dropped in drops.items() if is_dropped), None)

    def without_pass_rates(self) -> PoolConfig:
        """Returns the pool with those filters alone that need nobody to play: by lengths and by lists of ids."""
        return replace(
            self, attempts=0, min_pass_rate=None, max_pass_rate=None, drop_hopeless=False, drop_trivial=False
        )

    def within(self, directory: Path) -> PoolConfig:
        """Returns the pool as it is once the run in a directory has drawn it; any other as it is."""
        if not self.draw:
            return self
        return replace(self, file=str(directory / OWN_POOLS / self.file), draw=0, attempts=0)

    @property
    def reads_pass_rates(self) -> bool:
        """Whether it filters by how often levels were solved."""
        return self.drop_hopeless or self.drop_trivial or (self.min_pass_rate, self.max_pass_rate) != (None, None)

    @property
    def reads_lengths(self) -> bool:
        """Whether it filters by how long solutions are."""
        return (self.min_solution_length, self.max_solution_length) != (None, None)


@dataclass(frozen=True, kw_only=True)
class DrawPoolConfig:
    """How a pool is drawn.

    Attributes:
        out: File that it is written to. One that an interrupted call of the same settings left is gone on with.
        num_samples: Levels. A data set that has fewer gives all of them.
        world: Number of the recipe's world, from 0, whose levels they are.
        exclude: Files of ids that are not drawn, such as the pool of another stage: that makes the two disjoint.
        agent: Who plays each level, so that its passes are known: `"hf:DIR"`, `"vllm:DIR"` or any other name of an
            agent. None for nobody.
        attempts: How often.
        sampling: How a model's responses are drawn.
        device: Where a model lives that is loaded here.
        seed: Seed of the levels and of the agent.
    """

    out: str = "pool.jsonl"
    num_samples: int = 256
    world: int = 0
    exclude: tuple[str, ...] = ()
    agent: str | None = None
    attempts: int = 5
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    device: str = "auto"
    seed: int = 0

    def __post_init__(self) -> None:
        require(bool(self.out), f"{field_name(self, 'out')} must name a file; got {self.out!r}.")
        require_at_least(self, 1, "num_samples", "attempts")
        require_at_least(self, 0, "world", "seed")
