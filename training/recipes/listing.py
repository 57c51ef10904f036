"""What each recipe that ships needs and how long it takes: `python -m training list`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from training.config.curation.curate import CurateConfig
from training.config.run import RunConfig
from training.config.stages import StagesConfig
from training.config.worlds.spec import WorldSpec
from training.recipes.first_starts import FIRST_STARTS
from training.recipes.shipped import RECIPES, STAGED_PRESETS, STAGED_RECIPES
from vlm_envs.cli.needs import need_of
from vlm_envs.registration import registered_name
from vlm_envs.requirements import install_command


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What one has to know before one starts a recipe.

    Attributes:
        needs: What has to be there that `make train CONFIG=NAME` does not install; the extras of the recipe's worlds,
            which it does, are `extras_of`. Empty for nothing.
        minutes: Wall time on two cores of a laptop's speed, cold start and evaluations included, as it was seen; None
            for one that was not run here from start to end.
    """

    needs: str = ""
    minutes: float | None = None


PACKAGES_OF_TRAINING = frozenset({"matplotlib", "pydantic"})
"""What worlds import, by import name, and the extra `train` brings as well."""

_CHECKPOINT = "--model DIR, a GPU"
_DRIVERS = "make drivers (root)"

FACTS: dict[str, Facts] = {
    "frozenlake_tiny": Facts(minutes=15),
    "sokoban_tiny": Facts(minutes=44),
    "svg_tiny": Facts(needs=_DRIVERS, minutes=12),
    "navigation_tiny": Facts(minutes=10),
    "primitive_tiny": Facts(needs=_DRIVERS, minutes=5),
    "zoomqa_tiny": Facts(minutes=5),
    "docqa_tiny": Facts(minutes=6),
    "videoqa_tiny": Facts(minutes=4),
    "judging_tiny": Facts(minutes=10),
    "mix_tiny": Facts(needs=_DRIVERS, minutes=50),
    "vagen_base": Facts(needs=_CHECKPOINT),
    "vagen_full": Facts(needs=_CHECKPOINT),
    "mags_tiny": Facts(minutes=30),
    "mags": Facts(needs=f"{_CHECKPOINT}, data sets, weights of SMFANet"),
    "arm_thinker_tiny": Facts(minutes=20),
    "arm_thinker": Facts(needs=_CHECKPOINT),
    "ivgr_tiny": Facts(minutes=12),
    "ivgr": Facts(needs=f"{_CHECKPOINT}, TreeVGR's data, a judge's endpoint"),
    "argos_tiny": Facts(minutes=10),
    "argos_hack_tiny": Facts(needs="a finished argos_tiny", minutes=3),
    "argos": Facts(needs=_CHECKPOINT),
}
"""By the recipe's name."""


def extras_of(made: RunConfig | StagesConfig) -> tuple[str, ...]:
    """Returns the extras that a recipe's worlds need, sorted; without those that bring no more than `train` does."""
    needs = filter(None, (need_of(registered_name(spec.env_id)) for spec in _worlds(made)))
    return tuple(sorted({need.extra for need in needs if not PACKAGES_OF_TRAINING.issuperset(need.packages)}))


def _worlds(made: RunConfig | StagesConfig) -> Iterator[WorldSpec]:
    """Yields the worlds of a run, or of all stages of one."""
    for run in (made,) if isinstance(made, RunConfig) else (stage.run for stage in made.stages):
        if isinstance(run, RunConfig):
            yield from run.worlds
        elif isinstance(run, CurateConfig):
            yield from run.specs


def _needs(name: str, made: RunConfig | StagesConfig) -> str:
    """Returns what a recipe needs besides `pip install '.[train]'`, in words."""
    extras = extras_of(made)
    packages = [f".[{','.join(extras)}]"] if extras else []
    return ", ".join([*packages, *filter(None, [FACTS[name].needs])]) or "nothing"


def listing() -> str:
    """Returns a line for each recipe: its name, what it needs, how long it takes here, what it is."""
    recipes = RECIPES | STAGED_RECIPES | STAGED_PRESETS
    rows = [("recipe", "needs", "minutes", "")]
    for name, recipe in recipes.items():
        facts = FACTS[name]
        minutes = "not run here" if facts.minutes is None else f"{facts.minutes:g}"
        rows.append((name, _needs(name, recipe()), minutes, (recipe.__doc__ or "").strip().splitlines()[0]))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = ["  ".join([*map(str.ljust, row[:3], widths), row[3]]).rstrip() for row in rows]
    return "\n".join(
        [
            *lines,
            "",
            f"Packages such as .[tools]: `make train CONFIG=RECIPE` installs them, or {install_command('train,tools')}.",
            "Minutes are of one or two threads on two cores, evaluations included, and a cold start where one is made.",
            f"Cold starts of some go on from {' and '.join(FIRST_STARTS)}: python -m training cold_start NAME",
            "Options of a recipe: python -m training RECIPE --help",
        ]
    )
