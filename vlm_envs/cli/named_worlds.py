"""Worlds that a person names on a command line: their arguments (`--set NAME=VALUE`), descriptions, and making them."""

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
"""A field of options that takes a world's arguments."""

_NEXT_SETTING = re.compile(r"(,\s*)(?=[A-Za-z_]\w*=)")

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
    """Returns the text before the first `separator name=`, and each `name=value` after it.

    A value in brackets or quotes may contain what looks like another setting. The colon of `adapt:` is not a separator:
    the file name after it may contain an equals sign.

    Raises:
        ConfigError: If a bracket or a quote that is not closed would make other settings part of a value.
    """
    prefix, colon, _ = text.partition(":")
    start = len(prefix + colon) if prefix in RESOLVERS else 0
    begins = re.compile(rf"{separator}(?=[A-Za-z_]\w*=)").search(text, start)
    if begins is None:
        return text, []
    first, *others = _NEXT_SETTING.split(text[begins.end() :])
    parts = [first]
    for comma, piece in zip(others[::2], others[1::2], strict=True):
        if _is_open(parts[-1]):
            parts[-1] += comma + piece
        else:
            parts.append(piece)
    require(
        not (_is_open(parts[-1]) and _NEXT_SETTING.search(parts[-1])),
        f"A bracket or a quote is not closed in {parts[-1]!r}. Close it or, in a text, put the text in quotes.",
    )
    return text[: begins.start()], parts


def _is_open(setting: str) -> bool:
    """Returns whether a value begins with a bracket or a quote and is not a whole literal."""
    name, _, value = setting.partition("=")
    return value.startswith(tuple("([{'\"")) and parse_settings([setting])[name] == value


def make_world(env_id: str, **kwargs: Any) -> World[Any, Any]:
    """Makes a world without Gymnasium's wrappers; its id may have a module in front.

    Raises:
        ConfigError: If the id is unknown, is no `World`, or does not take the arguments.
    """
    world = make(env_id, **kwargs).unwrapped
    if not isinstance(world, World):
        raise ConfigError(not_a_world(env_id))
    return world


def describe(env_id: str) -> str:
    """Returns one sentence on a registered world: what differs for a variant, else the first line of its docstring."""
    variant = VARIANTS.get(env_id)
    return docstring(env_id).partition("\n")[0] if variant is None else variant.summary


def docstring(env_id: str) -> str:
    """Returns a registered world's docstring without its indentation, or an empty string.

    It is read from the source, since importing a world takes the packages it needs.
    """
    entry_point = gym.registry[env_id].entry_point
    if isinstance(entry_point, str) and (written := written_docstring(entry_point)):
        return written
    try:
        return inspect.getdoc(creator_of(env_id)) or ""
    except (ImportError, VLMEnvsError):
        return ""
