"""`--set NAME=VALUE`: a world's arguments on the command line."""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterable
from typing import Any

from vlm_envs.errors import ConfigError


def seed(text: str) -> int:
    """Reads the seed of a level, for argparse."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"a seed is a whole number from 0; got {text!r}")
    return int(text)


_WORDS = {"true": True, "false": False, "none": None}
"""Literals in any case: `false` as a string would count as true."""


def add_set_argument(parser: argparse.ArgumentParser) -> None:
    """Adds `--set NAME=VALUE`, which may be repeated."""
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="an argument of the world, such as num_boxes=2; may be repeated",
    )


def parse_settings(texts: Iterable[str], *, option: str = "--set") -> dict[str, Any]:
    """Returns settings as arguments of a world.

    Args:
        texts: Each `NAME=VALUE`; a value is a Python literal, or a string where it is none.
        option: What they were given by, for the message.

    Returns:
        Value by name; the last one counts.

    Raises:
        ConfigError: If a text has no name or no equals sign.
    """
    return dict(_parse_setting(text, option) for text in texts)


def _parse_setting(text: str, option: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise ConfigError(f"{option} takes NAME=VALUE, such as num_boxes=2; got {text!r}.")
    try:
        return name, _WORDS[value.lower()] if value.lower() in _WORDS else ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value
