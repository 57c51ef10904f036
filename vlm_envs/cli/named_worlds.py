"""Worlds named on a command line: their arguments (`--set NAME=VALUE`), descriptions, and creation."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable
from typing import Annotated, Any

import gymnasium as gym
from tyro.conf import UseAppendAction, arg

from vlm_envs.command_line import written_docstring
from vlm_envs.errors import ConfigError, VLMEnvsError
from vlm_envs.registration import RESOLVERS, VARIANTS, creator_of, make, not_a_world
from vlm_envs.validation import require
from vlm_envs.world import World

Settings = Annotated[
    tuple[str, ...],
    UseAppendAction,
    arg(name="set", metavar="NAME=VALUE", help="An argument of the world, such as num_boxes=2; may be repeated."),
]
"""A field of an options class for a world's arguments."""

_BRACKETS = {"(": ")", "[": "]", "{": "}"}
_NEXT_SETTING = re.compile(r",\s*[A-Za-z_]\w*=")

_WORDS = {"true": True, "false": False, "none": None}
"""Literals in any case: `false` as a string would count as true."""


def parse_settings(texts: Iterable[str], *, option: str = "--set", example: str = "num_boxes=2") -> dict[str, Any]:
    """Returns settings, each `NAME=VALUE`, by name: Python literals, or strings if they are not. The last one counts.

    Raises:
        ConfigError: If a text has no name or no equals sign; the message names the option and gives an
            example.
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
    """Returns the text before the first `separator name=`, and each `name=value` after it.

    Commas within brackets or quotes are part of a value. The colon of `adapt:` is not a separator: the file
    name after it may contain an equals sign.

    Raises:
        ConfigError: If an unclosed bracket or quote would make other settings part of a value.
    """
    prefix, colon, _ = text.partition(":")
    start = len(prefix + colon) if prefix in RESOLVERS else 0
    begins = re.compile(rf"{separator}(?=[A-Za-z_]\w*=)").search(text, start)
    if begins is None:
        return text, []
    settings = text[begins.end() :]
    parts, is_closed = _split(settings, quotes="'\"")
    if not is_closed:
        parts, is_closed = _split(settings, quotes="")  # An apostrophe may begin a text
    for part in parts if is_closed else parts[:-1]:
        _require_no_open_quote(part)
    if not is_closed:
        _require_no_open_bracket(parts[-1])
    return text[: begins.start()], parts


def _require_no_open_bracket(setting: str) -> None:
    """Rejects a last setting with an open bracket, unless it is a text that contains no other setting."""
    _, _, value = setting.partition("=")
    is_data = value.startswith(("{", "[")) or (value.startswith("(") and "," in value)
    require(
        not is_data and not _NEXT_SETTING.search(value),
        f"A bracket is not closed in {setting!r}. Close it or, in a text, put the text in quotes: NAME='TEXT'.",
    )


def _require_no_open_quote(setting: str) -> None:
    """Rejects a value that begins with a quote, contains another setting, and is not a quoted text."""
    name, _, value = setting.partition("=")
    if name.isidentifier() and value.startswith(("'", '"')) and _NEXT_SETTING.search(value):
        is_quoted = parse_settings([setting])[name] != value
        require(is_quoted, f"A quote is not closed in {setting!r}. Close it, or put the text in the other quotes.")


def _split(settings: str, *, quotes: str) -> tuple[list[str], bool]:
    """Returns settings split at commas outside brackets and quotes, and whether every bracket and quote is closed.

    A quote opens only where a value or an element begins: an apostrophe within a word is text.
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
    return parts, not closing


def make_world(env_id: str, **kwargs: Any) -> World[Any, Any]:
    """Creates a world without Gymnasium's wrappers; its id may have a module in front.

    Raises:
        ConfigError: If the id is unknown or does not belong to a `World`, or the arguments do not fit.
    """
    world = make(env_id, **kwargs).unwrapped
    if not isinstance(world, World):
        raise ConfigError(not_a_world(env_id))
    return world


def describe(env_id: str) -> str:
    """Returns one sentence about a registered world: a variant's difference, else the first line of its docstring."""
    variant = VARIANTS.get(env_id)
    return docstring(env_id).partition("\n")[0] if variant is None else variant.summary


def docstring(env_id: str) -> str:
    """Returns a registered world's docstring without its indentation, or an empty string.

    It is read from the source, since importing a world requires its packages.
    """
    entry_point = gym.registry[env_id].entry_point
    if isinstance(entry_point, str) and (written := written_docstring(entry_point)):
        return written
    try:
        return inspect.getdoc(creator_of(env_id)) or ""
    except (ImportError, VLMEnvsError):
        return ""
