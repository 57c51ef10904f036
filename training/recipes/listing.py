"""The output of `python -m training --help` and `list`: recipes, requirements, and run times."""

from __future__ import annotations

from dataclasses import dataclass

from vlm_envs.command_line import written_docstrings
from vlm_envs.requirements import install_command
from vlm_envs.terminal_tables import table, wrapped

COMMANDS = {
    "list": "show what each recipe needs and how long it takes here",
    "sft": "fine-tune a checkpoint on conversations with images, or on a curated dataset",
    "cold_start": "rebuild a recipe's cold start, or the start that it continues from",
    "pool": "draw a finite set of levels to train on, and count how often an agent solves each",
    "plan": "plan the memory of a run on its GPUs, without a checkpoint's weights",
    "upscaler": "train a super-resolution network on generated scenes",
    "pairs": "pair right responses with wrong ones to judge, and drop those that are too similar",
    "curate": "filter an expert's rollouts into a dataset for fine-tuning",
}
"""Subcommands and their descriptions."""


MODULES = tuple(f"training.recipes.{name}" for name in ("tiny", "vagen", "mags", "arm_thinker", "ivgr", "argos"))
"""Modules of the recipes."""


FIRST_STARTS = ("mix_first_steps", "primitive_two_cubes")
"""Names in `training.recipes.shipped`."""


_CHECKPOINT = "--model DIR, a GPU"


_DRIVERS = "make drivers (root)"


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Requirements and run time of a recipe.

    Attributes:
        extras: Extras that its worlds need in addition to `train`; `make train CONFIG=NAME` installs them.
        needs: Requirements that `make train CONFIG=NAME` does not install; empty for none.
        minutes: Measured wall time on two laptop-class cores, including cold start and evaluations; None if the
            recipe was not run here from start to end.
    """

    extras: tuple[str, ...] = ()
    needs: str = ""
    minutes: float | None = None

    def needed(self) -> str:
        """Returns the requirements of the recipe in addition to the extra `train`, as text."""
        packages = [f".[{','.join(self.extras)}]"] if self.extras else []
        return ", ".join([*packages, *filter(None, [self.needs])]) or "nothing"


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
    "mags": Facts(needs=f"{_CHECKPOINT}, datasets, weights of SMFANet"),
    "arm_thinker": Facts(extras=("tools",), needs=_CHECKPOINT),
    "ivgr": Facts(needs=f"{_CHECKPOINT}, TreeVGR's data, a judge's endpoint"),
    "argos": Facts(needs=_CHECKPOINT),
}
"""Facts by recipe name, in the order of the list."""


def usage_lines() -> list[str]:
    """Returns the help of `python -m training`."""
    lines = [
        "usage: python -m training RECIPE [--options] [--resume]",
        "       python -m training my_module:My/World-v0 [--options]",
        "                          a world of your own, or any other, by its id",
        "       python -m training --recipe my_recipe.py [--options]",
        "                          a recipe of your own",
        "       python -m training --version",
        "",
        "recipes:",
        *table([(f"  {name:18}", summary) for name, summary in summaries().items()]),
        "",
        "commands:",
        *table([(f"  {name:18}", text) for name, text in COMMANDS.items()]),
    ]
    return [*lines, "", "Main options of a recipe: python -m training RECIPE --help; all: --help-all"]


def recipe_lines() -> list[str]:
    """Returns the list of recipes: name, run time, requirements, and summary."""
    rows = [
        (name, "not run here" if facts.minutes is None else f"{facts.minutes:g}", facts.needed())
        for name, facts in FACTS.items()
    ]
    footer = (
        "Packages such as .[tools] are installed by `make train CONFIG=RECIPE`, or by",
        f"    {install_command('train,tools')}",
        *wrapped("Minutes are for one or two threads on two cores, including evaluations and cold starts."),
        f"Some cold starts continue from {' or '.join(FIRST_STARTS)}:",
        "    python -m training cold_start NAME",
        "Options of a recipe:",
        "    python -m training RECIPE --help",
    )
    lines = table(rows, headings=("recipe", "minutes", "needs"), notes=list(summaries().values()))
    return [*lines, "", *footer]


def summaries() -> dict[str, str]:
    """Returns the first line of each recipe's docstring, by name."""
    written = {name: text for module in MODULES for name, text in written_docstrings(module).items()}
    return {name: written[name].partition("\n")[0] for name in FACTS}
