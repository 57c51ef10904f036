"""What `python -m training --help` and `list` print, without an import of what recipes are made of."""

from __future__ import annotations

from training.recipes.listing import FACTS, FIRST_STARTS, MODULES
from vlm_envs.arguments.docstrings import written_docstrings
from vlm_envs.arguments.tables import table, wrapped
from vlm_envs.requirements import install_command

COMMANDS = {
    "list": "show what each recipe needs and how long it takes here",
    "sft": "fine-tune a checkpoint on conversations with pictures, or on what curate made",
    "cold_start": "rebuild a recipe's cold start, or what that goes on from",
    "pool": "draw a finite set of levels to train on, and count how often an agent solves each",
    "plan": "say whether a run fits its GPUs, from a checkpoint's config.json alone",
    "upscaler": "train a super-resolution network on generated scenes",
    "pairs": "put wrong responses beside right ones, to be judged, and drop those too similar",
    "curate": "filter an expert's rollouts into a data set to fine-tune on",
}
"""What is not a recipe, and what it does."""


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
    """Returns the list of recipes: name, how long it takes here, what it needs, and what it is."""
    rows = [
        (name, "not run here" if facts.minutes is None else f"{facts.minutes:g}", facts.needed())
        for name, facts in FACTS.items()
    ]
    footer = (
        "Packages such as .[tools] are installed by `make train CONFIG=RECIPE`, or by",
        f"    {install_command('train,tools')}",
        *wrapped(
            "Minutes are of one or two threads on two cores, with evaluations and with cold starts that are made."
        ),
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
