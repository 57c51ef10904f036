"""What `python -m benchmarks probe` does and prints."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.markdown import of_rows
from vlm_envs.errors import ConfigError
from vlm_envs.validation import did_you_mean, require, require_at_least

if TYPE_CHECKING:
    from benchmarks.probe.seeing import Seeing

START = "start"
_INNER = {"model", "latest", "best", "cold_start"}
"""Folders of a run that say nothing of what it is."""


@dataclass(frozen=True, kw_only=True)
class ProbeOptions:
    """See what a linear probe reads of the true state in models' vision features: do they see?

    Of each recipe's world, random weights, the start that the recipe goes on from, and other checkpoints are shown the
    first pictures of levels; ridge regression reads each fact of the state off the mean of each picture's tokens. A
    skill of 1 is a fact that is always read right, 0 one that is read no better than unseen. What random weights tell
    already is in the picture for whoever reads it. Without `--add` the table of what is there is shown.

    Attributes:
        add: Recipes whose worlds are looked at, such as sokoban_tiny; their results are added or replaced.
        models: Further checkpoints that are shown the same, such as runs/sokoban_tiny/latest/model.
        num_levels: Training levels that the probe is fitted to.
        num_measured: Validation levels that it is measured on.
        results: Where results are, a file for each recipe.
    """

    add: tuple[str, ...] = ()
    models: tuple[Path, ...] = ()
    num_levels: int = 1024
    num_measured: int = 256
    results: Path = Path("docs/probes")

    def __post_init__(self) -> None:
        require_at_least(self, 32, "num_levels", "num_measured")
        require(
            bool(self.add) or not self.models,
            f"--models {' '.join(map(str, self.models))} would do nothing: what is there is shown. Add the recipes "
            "whose worlds these checkpoints shall be shown, such as --add sokoban_tiny.",
        )


def run_probe(options: ProbeOptions) -> None:
    """Probes what is asked for, and prints the table of what there is.

    Raises:
        ConfigError: If there is nothing to show, no such recipe or checkpoint, a world shows no picture, or a result
            cannot be read.
    """
    # Imported here, because other benchmarks must not need torch
    from benchmarks.probe.seeing import Seeing, seeing
    from training.recipes.shipped import RECIPES

    for name in options.add:
        if name not in RECIPES:
            raise ConfigError(f"Unknown recipe {name!r}.{did_you_mean(name, RECIPES)} Known: {', '.join(RECIPES)}.")
        config = RECIPES[name]()
        start = [] if config.model is None else [(START, Path(config.model))]
        models = dict([*start, *((_label(path), path) for path in options.models)])
        seen = seeing(config, models, num_levels=options.num_levels, num_measured=options.num_measured)
        seen.save(options.results / f"{name}.json")
        print(f"{options.results / name}.json: {len(seen.skills)} models", file=sys.stderr)
    found = [Seeing.load(path) for path in sorted(options.results.glob("*.json"))]
    if not found:
        raise ConfigError(f"There is nothing in {options.results}. Add some: --add sokoban_tiny.")
    print(*lines(found), sep="\n")


def lines(found: Sequence[Seeing]) -> list[str]:
    """Returns a table in Markdown, a line for each entry of each world's state."""
    models = list(dict.fromkeys(model for each in found for model in each.skills))
    rows = [("world", "of its state", *models), ("---",) * (2 + len(models))]
    for each in found:
        for entry in next(iter(each.skills.values())):
            told = (each.skills[model][entry] if model in each.skills else None for model in models)
            rows.append((each.env_id, f"`{entry}`", *("" if value is None else f"{value:.2f}" for value in told)))
    return of_rows(rows)


def _label(directory: Path) -> str:
    """Returns what a checkpoint is called: the last folder of its path that says something."""
    return next((part for part in reversed(directory.parts) if part not in _INNER), str(directory))
