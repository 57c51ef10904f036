"""What each recipe that ships needs and how long it takes: `python -m training list`."""

from __future__ import annotations

from dataclasses import dataclass

from training.recipes.shipped import RECIPES, STAGED_PRESETS, STAGED_RECIPES


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What one has to know before one starts a recipe.

    Attributes:
        needs: What has to be there, besides `pip install '.[train]'`; empty for nothing.
        minutes: Wall time on two cores of a laptop's speed, cold start and evaluations included, as it was seen; None
            for one that was not run here from start to end.
    """

    needs: str = ""
    minutes: float | None = None


_CHECKPOINT = "--model DIR, a GPU"

FACTS: dict[str, Facts] = {
    "frozenlake_tiny": Facts(minutes=8),
    "sokoban_tiny": Facts(minutes=30),
    "svg_tiny": Facts(minutes=12),
    "navigation_tiny": Facts(minutes=8),
    "primitive_tiny": Facts(needs="make drivers", minutes=5),
    "zoomqa_tiny": Facts(minutes=5),
    "docqa_tiny": Facts(minutes=7),
    "videoqa_tiny": Facts(minutes=4),
    "judging_tiny": Facts(minutes=10),
    "mix_tiny": Facts(needs="make drivers", minutes=40),
    "vagen_base": Facts(needs=_CHECKPOINT),
    "vagen_full": Facts(needs=_CHECKPOINT),
    "mags_tiny": Facts(minutes=30),
    "mags": Facts(needs=f"{_CHECKPOINT}, data sets, weights of SMFANet"),
    "arm_thinker_tiny": Facts(minutes=20),
    "arm_thinker": Facts(needs=_CHECKPOINT),
    "ivgr_tiny": Facts(minutes=9),
    "ivgr": Facts(needs=f"{_CHECKPOINT}, TreeVGR's data, a judge's endpoint"),
    "argos_tiny": Facts(minutes=10),
    "argos_hack_tiny": Facts(needs="argos_tiny"),
    "argos": Facts(needs=_CHECKPOINT),
}
"""By the recipe's name."""


def listing() -> str:
    """Returns a line for each recipe: its name, what it needs, how long it takes here, what it is."""
    recipes = RECIPES | STAGED_RECIPES | STAGED_PRESETS
    rows = [("recipe", "needs", "minutes", "")]
    for name, recipe in recipes.items():
        facts = FACTS[name]
        minutes = "not run here" if facts.minutes is None else f"{facts.minutes:g}"
        rows.append((name, facts.needs or "nothing", minutes, (recipe.__doc__ or "").strip().splitlines()[0]))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = ["  ".join([*map(str.ljust, row[:3], widths), row[3]]).rstrip() for row in rows]
    return "\n".join(
        [
            *lines,
            "",
            "Minutes are of two CPU cores, cold start and evaluations included.",
            "Options of a recipe: python -m training RECIPE --help",
        ]
    )
