"""What an arm of a claim came to, in a file of its own."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import replace_file

_OUTCOMES = {"0": False, "1": True}
"""What a character of a file says of a level."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """A validation on the way.

    Attributes:
        cpu_s: CPU seconds of training until then, of this arm alone.
        step: Steps of imitation, or iterations, until then.
        success: Share of validation levels solved.
    """

    cpu_s: float
    step: int
    success: float


@dataclass(kw_only=True)
class Arm:
    """What an arm came to.

    Attributes:
        kind: `"expert"`, `"start"`, `"imitation"` or `"rl"`.
        claim: Name of the claim.
        seed: Of the run.
        start: Hash of the weights that all arms go on from; empty of an expert, and where nobody kept it.
        curve: Validations in order; of an expert one at most, since it learns nothing.
        cpu_s: CPU seconds of training in all, without validations.
        best: The point whose weights played the test levels, the first of equals; None of the expert.
        solved: Of each test level in the order of its split, whether it was solved.
        greedy: The same where the most probable token is taken at each place, and none drawn; empty of an expert, and
            where nobody measured it.
        levels: What tells test levels apart: small worlds have some more than once.
        format_rate: Share of turns on test levels whose format was right.
        made_by: Configuration, versions and commit.
        rejected: Of imitation, `learning_rate`, `cpu_s` and `curve` of rates that came to less on validation levels.
    """

    kind: str
    claim: str
    seed: int
    start: str = ""
    curve: list[Point] = field(default_factory=list)
    cpu_s: float = 0.0
    best: Point | None = None
    solved: list[bool] = field(default_factory=list)
    greedy: list[bool] = field(default_factory=list)
    levels: list[str] = field(default_factory=list)
    format_rate: float = 0.0
    made_by: dict[str, Any] = field(default_factory=dict)
    rejected: list[dict[str, Any]] = field(default_factory=list)

    def save(self, path: Path) -> None:
        """Writes it as JSON, test levels in a line."""
        told = asdict(self) | {"levels": " ".join(self.levels)}
        told |= {name: "".join("01"[each] for each in told[name]) for name in ("solved", "greedy")}
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, (json.dumps(told, indent=1) + "\n").encode())

    @classmethod
    def load(cls, path: Path) -> Arm:
        """Returns what `save` wrote.

        Raises:
            ConfigError: If it cannot be read, or was written by a version that kept less.
        """
        try:
            told = json.loads(path.read_text(encoding="utf-8"))
            best = Point(**told["best"]) if told["best"] is not None else None
            points = {"curve": [Point(**each) for each in told["curve"]], "best": best}
            outcomes = {name: [_OUTCOMES[each] for each in told.get(name, "")] for name in ("solved", "greedy")}
            arm = cls(**told | points | outcomes | {"levels": told["levels"].split()})
            if not math.isfinite(arm.cpu_s):
                raise ValueError("its CPU seconds are no number")
            for of in (arm.solved, arm.greedy or arm.solved):
                if len(arm.levels) != len(of):
                    raise ValueError(f"{len(of)} outcomes of {len(arm.levels)} levels")
            return arm
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ConfigError(f"{path} is no arm of a claim that this version reads: {error!r}.") from error
