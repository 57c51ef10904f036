"""Reports packages that a command line needs and this Python lacks, in one line in place of a traceback.

`import vlm_envs` runs this before it imports anything that could be missing, so only the standard library is used here.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import NamedTuple


class Extra(NamedTuple):
    """An extra of this distribution.

    Attributes:
        extra: Its name.
        packages: What the program imports of it at its start, by import name.
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
"""Program to what it needs besides."""


_OF_TRAINING = {"torch", "transformers", "safetensors", "tensorboard"}


def require_packages() -> None:
    """Exits with one line if `python -m` is starting a program of this checkout that lacks packages.

    Raises:
        SystemExit: With the line, and exit code 1.
    """
    if sys.argv[:1] != ["-m"]:  # Python puts the program's path here once it is found, before it runs
        return
    program = _located()
    needed = (*BASE, *(EXTRAS[program].packages if program in EXTRAS else ()))
    if missing := [package for package in needed if find_spec(package) is None]:
        raise SystemExit(needs(program, *missing))


def needs(program: str, *packages: str) -> str:
    """Returns the line about packages that a program lacks."""
    extra = "train" if _OF_TRAINING & {*packages} else EXTRAS[program].extra if program in EXTRAS else ""
    what = f"'.[{extra}]'" if extra else "."
    names, python = ", ".join(packages).replace("PIL", "pillow"), sys.executable
    return (
        f"python -m {program} needs {names}, which {python} does not have. Install the checkout with {python} -m pip "
        f"install -e {what}, or run the Python of the environment that has it."
    )


def missing_package_message(error: ModuleNotFoundError, program: str) -> str:
    """Returns the line about the package that an import lacks.

    Raises:
        ModuleNotFoundError: The error itself, if the package is there and lacks a module: that is a bug.
    """
    package = (error.name or "").partition(".")[0]
    if not package or find_spec(package) is not None:
        raise error
    return needs(program, package)


def _located() -> str:
    """Returns the program of which `python -m` has imported the package."""
    return next((program for program in ("agents", *EXTRAS) if program in sys.modules), "vlm_envs")
