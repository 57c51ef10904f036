"""How a sweep is run, apart from running it, so that a command line can be read without torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vlm_envs.validation import require, require_at_least


@dataclass(frozen=True, kw_only=True)
class SweepConfig:
    """Train every arm of a sweep on several seeds, and print its tables.

    What is finished is not run again, and what was interrupted goes on: the same command, given again, comes to the
    same end. Without `--seeds` the tables are printed of what there is.

    Attributes:
        world: Which world's tables.
        only: These arms, and the one that all are compared with; a wrong name lists them. None for all.
        seeds: How many seeds, from 1 on.
        model: Checkpoint directory that every arm starts from, with the paper's constants; None for the tiny VLM.
        quick: Whether everything is cut to what shows that it runs. Its numbers mean nothing.
        num_at_once: Runs at the same time, each on one thread.
        output: Directory of all runs.
        results: Folder in which what arms solved is kept as well, in a small file for each sweep, such as docs/sweeps;
            what it has is not run again, and the tables are of it, too. None for none.
    """

    world: str = "frozenlake"
    only: tuple[str, ...] = ()
    seeds: int = 0
    model: str | None = None
    quick: bool = False
    num_at_once: int = 2
    output: Path = Path("runs")
    results: Path | None = None

    def __post_init__(self) -> None:
        require_at_least(self, 0, "seeds")
        require_at_least(self, 1, "num_at_once")
        require(not self.quick or self.results is None, "Numbers of --quick mean nothing: leave --results out.")
