"""What each recipe that ships needs and how long it takes: `python -m training list`.

Nothing here imports recipes, whose configurations take seconds to import; tests compare both.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What one has to know before one starts a recipe.

    Attributes:
        extras: Extras that its worlds need and `make train CONFIG=NAME` installs, besides `train`.
        needs: What has to be there that `make train CONFIG=NAME` does not install. Empty for nothing.
        minutes: Wall time on two cores of a laptop's speed, cold start and evaluations included, as it was seen; None
            for one that was not run here from start to end.
    """

    extras: tuple[str, ...] = ()
    needs: str = ""
    minutes: float | None = None

    def needed(self) -> str:
        """Returns what the recipe needs besides the extra `train`, in words."""
        packages = [f".[{','.join(self.extras)}]"] if self.extras else []
        return ", ".join([*packages, *filter(None, [self.needs])]) or "nothing"


MODULES = tuple(f"training.recipes.{name}" for name in ("tiny", "vagen", "mags", "arm_thinker", "ivgr", "argos"))
"""Modules of the recipes."""

FIRST_STARTS = ("mix_first_steps", "primitive_two_cubes")
"""Names in `training.recipes.first_starts`."""

_CHECKPOINT = "--model DIR, a GPU"
_DRIVERS = "make drivers (root)"

FACTS: dict[str, Facts] = {
    "frozenlake_tiny": Facts(minutes=15),
    "sokoban_tiny": Facts(minutes=44),
    "svg_tiny": Facts(extras=("svg",), needs=_DRIVERS, minutes=12),
    "navigation_tiny": Facts(extras=("navigation",), minutes=10),
    "primitive_tiny": Facts(extras=("manipulation",), needs=_DRIVERS, minutes=5),
    "zoomqa_tiny": Facts(minutes=5),
    "docqa_tiny": Facts(extras=("tools",), minutes=6),
    "videoqa_tiny": Facts(minutes=4),
    "judging_tiny": Facts(extras=("tools",), minutes=10),
    "mix_tiny": Facts(extras=("manipulation", "navigation", "svg", "tools"), needs=_DRIVERS, minutes=50),
    "vagen_base": Facts(needs=_CHECKPOINT),
    "vagen_full": Facts(needs=_CHECKPOINT),
    "mags_tiny": Facts(minutes=30),
    "arm_thinker_tiny": Facts(extras=("tools",), minutes=20),
    "ivgr_tiny": Facts(minutes=12),
    "argos_tiny": Facts(minutes=10),
    "argos_hack_tiny": Facts(needs="a finished argos_tiny", minutes=3),
    "mags": Facts(needs=f"{_CHECKPOINT}, data sets, weights of SMFANet"),
    "arm_thinker": Facts(extras=("tools",), needs=_CHECKPOINT),
    "ivgr": Facts(needs=f"{_CHECKPOINT}, TreeVGR's data, a judge's endpoint"),
    "argos": Facts(needs=_CHECKPOINT),
}
"""By the recipe's name, in the order of the list."""
