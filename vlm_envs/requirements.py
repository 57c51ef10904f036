"""Installation hints, and one-line messages instead of tracebacks about packages that a command line lacks.

`import vlm_envs` runs this before it imports anything that could be missing, so only the standard library is
used here.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

DISTRIBUTION = "vlm-envs"
CHECKOUT = Path(__file__).resolve().parents[1]
"""The checkout that contains this package, or another folder if it was installed from a wheel."""


class Extra(NamedTuple):
    """An extra of this distribution.

    Attributes:
        extra: Its name.
        packages: Packages that the program imports from it when it starts, by import name.
    """

    extra: str
    packages: tuple[str, ...]


BASE = ("gymnasium", "numpy", "PIL", "tyro")
"""Import names of the packages that every program needs."""

EXTRAS = {
    "judges": Extra("judge", ("pydantic",)),
    "training": Extra("train", ("pydantic",)),
    "benchmarks": Extra("api,records", ("jinja2", "pydantic")),
}
"""Program to the extra that it needs."""


_OF_TRAINING = {"torch", "transformers", "safetensors", "tensorboard"}


def require_packages() -> None:
    """Exits with one line if `python -m` is starting a program of this checkout that lacks packages.

    Raises:
        SystemExit: With the line, and exit code 1.
    """
    if sys.argv[:1] != ["-m"]:  # Python puts the program's path here when it is found, before it runs
        return
    program = _located()
    needed = (*BASE, *(EXTRAS[program].packages if program in EXTRAS else ()))
    if missing := [package for package in needed if find_spec(package) is None]:
        raise SystemExit(needs(program, *missing))


def needs(program: str, *packages: str) -> str:
    """Returns the line about packages that a program lacks."""
    extra = "train" if _OF_TRAINING & {*packages} else EXTRAS[program].extra if program in EXTRAS else ""
    names, python = ", ".join(packages).replace("PIL", "pillow"), sys.executable
    return (
        f"python -m {program} needs {names}, which {python} does not have. Run: {python} -m "
        f"{install_command(extra)}, "
        "or use the Python of an environment that has it."
    )


def install_command(extras: str = "") -> str:
    """Returns the `pip install` command for extras of this distribution, used by every hint about a missing package.

    This distribution need not be in a package index: in a checkout the command installs the checkout, named
    by its folder unless that is the current one; otherwise it installs the extras' requirements.

    Args:
        extras: Names separated by commas, such as `"api,records"`; empty for the requirements of every
            program.
    """
    project = CHECKOUT / "pyproject.toml"
    if project.is_file() and f'name = "{DISTRIBUTION}"' in project.read_text(encoding="utf-8"):
        folder = "." if Path.cwd() == CHECKOUT else str(CHECKOUT)
        return f"pip install -e {shlex.quote(f'{folder}[{extras}]' if extras else folder)}"
    return f"pip install {' '.join(map(shlex.quote, requirements_of(extras)))}"


def requirements_of(extras: str = "") -> list[str]:
    """Returns the requirements that the installed distribution declares for extras, such as `"panda3d>=1.10.15"`.

    Args:
        extras: Names separated by commas; empty for the requirements without an extra.
    """
    from importlib.metadata import PackageNotFoundError, requires  # takes longer than the rest of this module

    try:
        stated = requires(DISTRIBUTION) or []
    except PackageNotFoundError:
        stated = []
    return list(dict.fromkeys(found for extra in extras.split(",") for found in _stated_for(extra, stated)))


def _stated_for(extra: str, stated: list[str]) -> Iterator[str]:
    for line in stated:
        requirement, _, marker = (part.strip() for part in line.partition(";"))
        named = re.search(r"""extra\s*==\s*['"]([^'"]+)""", marker)
        if (named[1] if named else "") != extra:
            continue
        if own := re.fullmatch(rf"{DISTRIBUTION}\[(.+)\]", requirement):
            for inner in own[1].split(","):
                yield from _stated_for(inner.strip(), stated)
        else:
            yield requirement


def missing_package_message(error: ModuleNotFoundError, program: str) -> str:
    """Returns the line about the package that an import lacks.

    Raises:
        ModuleNotFoundError: The error itself, if the package exists but lacks a module, which is a bug.
    """
    package = (error.name or "").partition(".")[0]
    if not package or find_spec(package) is not None:
        raise error
    return needs(program, package)


def _located() -> str:
    """Returns the program whose package `python -m` has imported."""
    return next((program for program in ("agents", *EXTRAS) if program in sys.modules), "vlm_envs")
