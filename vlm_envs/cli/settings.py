"""`--set NAME=VALUE`: a world's arguments on the command line."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import Annotated, Any

from tyro.conf import UseAppendAction, arg

from vlm_envs.errors import ConfigError

Settings = Annotated[
    tuple[str, ...],
    UseAppendAction,
    arg(name="set", metavar="NAME=VALUE", help="An argument of the world, such as num_boxes=2; may be repeated."),
]
"""A field of options that takes a world's arguments."""

_BRACKETS = {"(": ")", "[": "]", "{": "}"}

_WORDS = {"true": True, "false": False, "none": None}
"""Literals in any case: `false` as a string would count as true."""


def parse_settings(texts: Iterable[str], *, option: str = "--set", example: str = "num_boxes=2") -> dict[str, Any]:
    """Returns settings, each `NAME=VALUE`, by name: Python literals, or strings where they are none. The last counts.

    Raises:
        ConfigError: If a text has no name or no equals sign; it names the option they were given by, and an
            example of what that takes.
    """
    return dict(_parse_setting(text, option, example) for text in texts)


def _parse_setting(text: str, option: str, example: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise ConfigError(f"{option} takes NAME=VALUE, such as {example}; got {text!r}.")
    try:
        return name, _WORDS[value.lower()] if value.lower() in _WORDS else ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def split_settings(text: str, separator: str) -> tuple[str, list[str]]:
    """Returns what stands before the first `separator name=`, and each `name=value` after it.

    Commas within brackets or quotes are part of a value.
    """
    begins = re.search(rf"{separator}(?=[A-Za-z_]\w*=)", text)
    if begins is None:
        return text, []
    settings = text[begins.end() :]
    return text[: begins.start()], _split(settings, quotes="'\"") or _split(settings, quotes="") or [settings]


def _split(settings: str, *, quotes: str) -> list[str]:
    """Returns settings split at commas outside brackets and quotes; none if a bracket or a quote is never closed.

    A quote opens where a value or an element begins: an apostrophe within a word is text.
    """
    parts, closing, before = [""], "", "="
    for char in settings:
        if closing and closing[-1] in quotes:
            closing = closing[:-1] if char == closing[-1] and before != "\\" else closing
        elif char in quotes and before in ("([{,: " if closing else "="):
            closing += char
        elif char in _BRACKETS:
            closing += _BRACKETS[char]
        elif closing and char == closing[-1]:
            closing = closing[:-1]
        elif char == "," and not closing:
            parts.append("")
            before = "="
            continue
        parts[-1] += char
        before = char
    return [] if closing else parts
