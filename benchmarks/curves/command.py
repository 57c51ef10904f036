"""What `python -m benchmarks curves` does and prints."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from vlm_envs.errors import ConfigError
from vlm_envs.validation import field_name, require


@dataclass(frozen=True, kw_only=True)
class CurvesOptions:
    """Draw how runs learnt, stage by stage: a small file and a picture for each, for the pages of the papers.

    A run may be one of stages, and need not be over. Without `--add` the pictures are drawn anew from the files.

    Attributes:
        add: Directories of runs, such as runs/ivgr_tiny, that are added or replaced.
        name: What the files of the one run that is added are called; None for what its directory is.
        curves: Where the files are, a NAME.json for each run.
        pictures: Where the pictures go, a NAME.png for each run.
    """

    add: tuple[Path, ...] = ()
    name: str | None = None
    curves: Path = Path("docs/curves")
    pictures: Path = Path("docs/images/curves")

    def __post_init__(self) -> None:
        name, option = self.name, field_name(self, "name")
        require(
            name is None or len(self.add) == 1,
            f"{option} {name} is of one run, and {len(self.add)} are added. Add one, or leave it out.",
        )
        require(
            name is None or re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name) is not None,
            f"{option} must be of letters, digits, _, - and ., such as ivgr_tiny; got {name!r}.",
        )


def run_curves(options: CurvesOptions) -> None:
    """Adds what is asked for, and draws it; all that there is where nothing is added.

    Raises:
        ConfigError: If there is nothing to draw, or a run has learnt nothing yet.
        MissingRunDataError: If there is no such run.
    """
    # Imported here, because other benchmarks must not need numbers and pictures
    from benchmarks.curves.condense import condensed
    from benchmarks.curves.curve import RunCurve
    from benchmarks.curves.draw import draw

    made = [condensed(directory, options.name) for directory in options.add]
    twice = next((each.name for each in made if [other.name for other in made].count(each.name) > 1), None)
    require(twice is None, f"Two of these runs are called {twice!r}. Add one after the other, with another --name.")
    for curve in made:
        curve.save(options.curves / f"{curve.name}.json")
    curves = made or [RunCurve.load(path) for path in sorted(options.curves.glob("*.json"))]
    if not curves:
        raise ConfigError(f"There are no curves in {options.curves}. Add some: --add runs/ivgr_tiny.")
    for curve in curves:
        picture = options.pictures / f"{curve.name}.png"
        draw(curve, picture)
        print(f"{picture}: {', '.join(span.stage for span in curve.spans)}")
