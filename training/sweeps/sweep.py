"""What a sweep is: runs that differ in one thing each, from one start, and the rows of the tables they stand in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from training.config.run_config import RunConfig
from vlm_envs.validation import require


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One setting that is trained, once a seed.

    Attributes:
        name: By which it is chosen and its runs are called.
        run: How it is trained; its model is the sweep's start unless it names another.
        rows: The tables that it stands in, each with what it is called there.
        paper: What the paper reports of it, from 0 to 1; None where it does not.
    """

    name: str
    run: RunConfig
    rows: Mapping[str, str]
    paper: float | None = None


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """Arms that are compared with one of them.

    Attributes:
        name: Under which its runs are kept.
        title: What it compares, for people.
        baseline: Name of the arm that the others are compared with.
        arms: All of them.
        start: A run of a cold start and nothing else, from whose model every arm goes on; None where arms name theirs.
    """

    name: str
    title: str
    baseline: str
    arms: tuple[Arm, ...]
    start: RunConfig | None = None

    def __post_init__(self) -> None:
        names = [arm.name for arm in self.arms]
        require(len(set(names)) == len(names), f"Arms of {self.name} need distinct names; got {', '.join(names)}.")
        require(self.baseline in names, f"{self.name} compares with {self.baseline!r}, which is none of its arms.")

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that it fills, in the order in which arms name them."""
        return tuple(dict.fromkeys(table for arm in self.arms for table in arm.rows))

    def only(self, names: tuple[str, ...]) -> Sweep:
        """Returns the sweep with these arms and the baseline; all of them where no name is given."""
        kept = tuple(arm for arm in self.arms if not names or arm.name in (*names, self.baseline))
        return replace(self, arms=kept)
