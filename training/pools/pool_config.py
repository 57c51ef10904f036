"""Settings of level pools: the levels that a run plays, and how to draw a pool."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from agents.hf.sampling_config import SamplingConfig
from vlm_envs.validation import field_name, require, require_at_least, require_between, require_choice

OWN_POOLS = "pools"
"""Folder of a run for the pools that it drew itself."""
ORDERS = ("shuffled", "easiest_first")
"""Orders of a pool's levels within an epoch."""


@dataclass(frozen=True, kw_only=True)
class PoolConfig:
    """A pool of levels for one world: a file and filters of its rows.

    The pass rate of a level is `passes / attempts` in its row, as counted by `python -m training pool --agent`.

    Attributes:
        file: JSON lines with one level each: `{"id": TEXT, "solution_length": 6, "attempts": 5, "passes": 2}`; only
            `id` is always required. With `draw`, a file name in the run's folder `pools`.
        draw: Number of levels that the run draws at its start; 0 for an existing file.
        attempts: Number of times that the run's initial model plays each drawn level, with the run's sampling, to
            measure pass rates for filters. If several worlds share the file, the first one is played. Levels that
            other filters drop are not played.
        min_pass_rate: Minimum pass rate of selected levels, in `[0, 1]`.
        max_pass_rate: Maximum pass rate of selected levels, in `[0, 1]`.
        drop_hopeless: Whether to drop levels that no attempt solved.
        drop_trivial: Whether to drop levels that every attempt solved.
        min_solution_length: Minimum length of the shortest solution of selected levels, in actions.
        max_solution_length: Maximum length of the shortest solution of selected levels, in actions.
        include: File of the only ids to select: another pool, or one id per line. None for all.
        exclude: Files of ids to exclude, such as the pool of another stage. In a staged run, a pool with `draw` also
            accepts `stage:NAME`, which excludes the levels kept by the earlier curation NAME.
        order: Order of the levels within an epoch: `shuffled`, with a new order each epoch, or `easiest_first`: by
            decreasing pass rate, then by increasing length of the shortest solution, with ties shuffled.
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
                "is in this range.",
            )

    def _require_drawn(self) -> None:
        """Checks settings that depend on whether the run draws the pool."""
        attempts = field_name(self, "attempts")
        require(
            self.draw == 0 or Path(self.file).name == self.file,
            f"A pool that the run draws is in the run's folder, so {field_name(self, 'file')} must be a file name; got "
            f"{self.file!r}.",
        )
        require(
            self.draw == 0 or self.attempts > 0 or not self.reads_pass_rates,
            f"The pool {self.file} is filtered by pass rates, but its levels are not played. Use {attempts} 5, or "
            "remove these filters.",
        )
        require(
            self.draw == 0
            or self.attempts == 0
            or None in [self.drops_passes(passes, self.attempts) for passes in range(self.attempts + 1)],
            f"With {attempts} {self.attempts} every pass rate is a multiple of 1/{self.attempts}, and the filters of "
            f"the pool {self.file} drop all of these. Widen the range, remove drop_hopeless or drop_trivial, or "
            f"increase {attempts}.",
        )

    def drops_passes(self, passes: int, attempts: int) -> str | None:
        """Returns the name of the filter that drops a level with these counts; None if no filter does."""
        rate = passes / attempts
        drops = {
            "drop_hopeless": self.drop_hopeless and passes == 0,
            "drop_trivial": self.drop_trivial and passes == attempts,
            "min_pass_rate": self.min_pass_rate is not None and rate < self.min_pass_rate,
            "max_pass_rate": self.max_pass_rate is not None and rate > self.max_pass_rate,
        }
        return next((name for name, is_dropped in drops.items() if is_dropped), None)

    def without_pass_rates(self) -> PoolConfig:
        """Returns the pool with only the filters that need no attempts: solution lengths and lists of ids."""
        return replace(
            self, attempts=0, min_pass_rate=None, max_pass_rate=None, drop_hopeless=False, drop_trivial=False
        )

    def within(self, directory: Path) -> PoolConfig:
        """Returns a pool that the run draws with the path of its file after drawing; any other pool unchanged."""
        if not self.draw:
            return self
        return replace(self, file=str(directory / OWN_POOLS / self.file), draw=0, attempts=0)

    @property
    def reads_pass_rates(self) -> bool:
        """Whether it filters by pass rates."""
        return self.drop_hopeless or self.drop_trivial or (self.min_pass_rate, self.max_pass_rate) != (None, None)

    @property
    def reads_lengths(self) -> bool:
        """Whether it filters by solution lengths."""
        return (self.min_solution_length, self.max_solution_length) != (None, None)


@dataclass(frozen=True, kw_only=True)
class DrawPoolConfig:
    """Settings for drawing a pool.

    Attributes:
        out: Output file. A file from an interrupted call with the same settings is resumed.
        num_samples: Number of levels; all of them if a dataset has fewer.
        world: Index of the recipe's world from which levels are drawn, from 0.
        exclude: Files of ids to exclude, such as the pool of another stage, to make the two disjoint.
        agent: The agent that plays each level to count passes: `"hf:DIR"`, `"vllm:DIR"`, or any other agent name.
            None to not play.
        attempts: Number of attempts per level.
        sampling: Sampling settings of a model's responses.
        device: Device of a locally loaded model.
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
