"""`python -m training RECIPE [--options]`, and the commands `cold_start`, `curate` and `report`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import tyro

from training.checkpoint import LATEST, has_checkpoint
from training.config import RunConfig
from training.curate import CurateConfig, make_data_set
from training.recipes import RECIPES
from training.report import build_report
from training.run import make_cold_start, prepare, train
from vlm_envs.errors import did_you_mean

COMMANDS = {
    "cold_start": "rebuild a recipe's cold start",
    "curate": "filter a teacher's rollouts into a data set for a cold start",
    "report": "write a run's report again",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a recipe or a command.

    Args:
        arguments: Command line without the program's name; the process's own by default.

    Returns:
        Exit status: 0 for success, 2 for a mistake on the command line or in the configuration, 130 when interrupted.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    name, rest = (words[0], words[1:]) if words else ("--help", [])
    try:
        if name in RECIPES:
            _run_recipe(name, rest)
        elif name == "cold_start":
            _cold_start(rest)
        elif name == "curate":
            _curate(rest)
        elif name == "report":
            _report(rest)
        elif name in ("-h", "--help"):
            print(_usage())
        else:
            known = [*RECIPES, *COMMANDS]
            print(f"Unknown recipe {name!r}.{did_you_mean(name, known)}\n{_usage()}", file=sys.stderr)
            return 2
    except (ValueError, FileNotFoundError, FileExistsError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as interrupt:
        print(str(interrupt) or "Stopped at once.", file=sys.stderr)
        return 130
    return 0


def _run_recipe(name: str, words: list[str]) -> None:
    resume = "--resume" in words
    config = _configured(name, [word for word in words if word != "--resume"])
    is_named = any(word.split("=")[0] == "--name" for word in words)
    if not resume and not is_named:
        config = replace(config, name=_free_name(config))
    train(config, resume=resume)


def _free_name(config: RunConfig) -> str:
    """Returns the recipe's name, or with the first number that no finished or resumable run has."""
    names = (config.name, *(f"{config.name}-{number}" for number in range(2, 10_000)))
    return next(name for name in names if not has_checkpoint(Path(config.output) / name / LATEST))


def _cold_start(words: list[str]) -> None:
    if not words or words[0] not in RECIPES:
        raise ValueError(f"cold_start takes a recipe ({', '.join(RECIPES)}) and its options; got {words[:1]}.")
    config = replace(_configured(words[0], words[1:]), model=None)
    prepare(config)
    directory = Path(config.output) / f"{config.name}_cold_start"
    make_cold_start(config, directory, writer=None)
    print(f"Cold start: {directory}")


def _curate(words: list[str]) -> None:
    config = tyro.cli(CurateConfig, args=words, prog="python -m training curate", description=CurateConfig.__doc__)
    directory, result = make_data_set(config)
    print(result)
    print(f"Data set: {directory}")
    if result.curated.kept:
        print(f"Train on it: python -m training cold_start RECIPE --cold-start.data {directory}")
    else:
        print("It is empty: nothing is good enough to imitate. Curate more, lower the threshold, or choose a teacher.")


def _report(words: list[str]) -> None:
    if len(words) != 1:
        raise ValueError("report takes one run directory, such as runs/frozenlake_tiny.")
    print(build_report(words[0]))


def _configured(name: str, words: list[str]) -> RunConfig:
    """Returns a recipe's configuration with the command line's changes."""
    return tyro.cli(
        RunConfig,
        default=RECIPES[name](),
        args=words,
        prog=f"python -m training {name}",
        description=" ".join((RECIPES[name].__doc__ or "").split()) + " Add --resume to go on with an interrupted run.",
    )


def _usage() -> str:
    lines = ["usage: python -m training RECIPE [--options] [--resume]", "", "recipes:"]
    lines += [f"  {name:18} {(recipe.__doc__ or '').strip().splitlines()[0]}" for name, recipe in RECIPES.items()]
    lines += ["", "commands:", *(f"  {name:18} {text}" for name, text in COMMANDS.items())]
    return "\n".join([*lines, "", "Options of a recipe: python -m training RECIPE --help"])


if __name__ == "__main__":
    sys.exit(main())
