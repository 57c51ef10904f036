"""The options of a command that is made from a dataclass: their names, and what is said where one is not known."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any, TypeVar

import tyro

from vlm_envs.arguments.ranges import fields_named
from vlm_envs.errors import ConfigError, did_you_mean

ENV_ID = re.compile(r"(?:[\w.]+:)?[\w.-]+/[\w.-]+-v\d+|(?!\S+\.py:)[\w.]+:(?:[\w.-]+/)?[\w.-]+")
"""An id as the trainer takes it: with namespace and version, or as it is registered by the module in front."""
_ENDPOINT = "judge.endpoint"
ConfigT = TypeVar("ConfigT")


@dataclass(frozen=True, kw_only=True)
class Command:
    """What a user calls.

    Attributes:
        prog: How: `python -m training frozenlake_tiny`.
        description: What it does.
        takes_worlds: Whether it has a mix of worlds, each with options of its own.
    """

    prog: str
    description: str
    takes_worlds: bool = False


def parsed(kind: type[ConfigT], words: Sequence[str], command: Command, default: ConfigT | None = None) -> ConfigT:
    """Returns the configuration that a command line describes.

    Args:
        kind: Its type.
        words: The options, and their values.
        command: What they belong to.
        default: Gives what is not said; None for the type's own defaults.

    Raises:
        ConfigError: If an option is not known, or a word belongs to none. Other mistakes end the process with a message
            and status 2.
    """
    options = option_names(kind)
    _refuse_unknown(words, options, command)
    start: dict[str, Any] = {} if default is None else {"default": default}
    with fields_named(options):
        found: tuple[ConfigT, list[str]] = tyro.cli(
            kind,
            args=endpoint_last(words),
            prog=command.prog,
            description=command.description,
            return_unknown_args=True,
            **start,
        )
    config, left = found
    if left:
        raise ConfigError(_stray(left[0], command))
    return config


def option_names(kind: type, prefix: str = "--") -> dict[type, dict[str, str]]:
    """Returns the option of each field, of a configuration and of those within it.

    Args:
        kind: A dataclass.
        prefix: What its options begin with.
    """
    names: dict[type, dict[str, str]] = {kind: {}}
    for field, hint in typing.get_type_hints(kind).items():
        option = names[kind][field] = prefix + field.replace("_", "-")
        for part in typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,):
            if isinstance(part, type) and is_dataclass(part):
                names |= option_names(part, f"{option}.")
    return names


def endpoint_last(words: Sequence[str]) -> list[str]:
    """Returns a command line with the options of a judge's endpoint behind the word that says there is one.

    The parser wants that word, and all other options before it; a user need not know.

    Args:
        words: Options in any order, with or without that word.
    """
    rest: list[str] = []
    of_endpoint: list[str] = []
    takes_next = False
    for word in words:
        belongs = word.startswith(f"--{_ENDPOINT}.")
        (of_endpoint if belongs or takes_next else rest).append(word)
        takes_next = belongs and "=" not in word
    if not of_endpoint:
        return rest
    return [
        *(word for word in rest if word != f"{_ENDPOINT}:endpoint-config"),
        f"{_ENDPOINT}:endpoint-config",
        *of_endpoint,
    ]


def _refuse_unknown(words: Sequence[str], options: Mapping[type, Mapping[str, str]], command: Command) -> None:
    known = [option for of_kind in options.values() for option in of_kind.values()]
    for index, word in enumerate(words):
        name = word.partition("=")[0].replace("_", "-")
        if not name.startswith("--") or name.startswith("--tyro-") or name == "--help":
            continue
        if command.takes_worlds and name.startswith("--worlds"):
            after = words[index + 1] if index + 1 < len(words) else ""
            raise ConfigError(f"{name} is no option. {_choose_world(word.partition('=')[2] or after)}")
        if name in known or _positive(name) in known:
            continue
        raise ConfigError(
            f"{command.prog} has no option {name}.{_nearest(name, known, command)} All of them: {command.prog} --help"
        )


def _positive(name: str) -> str:
    """Returns the option that `--part.no-name` turns off."""
    before, dot, last = name.removeprefix("--").rpartition(".")
    return f"--{before}{dot}{last.removeprefix('no-')}"


def _nearest(name: str, known: Sequence[str], command: Command) -> str:
    """Returns a sentence with the option that was meant, as far as that can be told."""
    alike = [option for option in known if option.endswith(f".{name.removeprefix('--')}")]
    if alike:
        return f" Did you mean {' or '.join(alike)}?"
    if meant := did_you_mean(name, known):
        return meant
    argument = name.removeprefix("--")
    return f" An argument of a world is --worlds.0.kwargs.{argument}." if command.takes_worlds else ""


def _stray(word: str, command: Command) -> str:
    if command.takes_worlds and ENV_ID.fullmatch(word):
        return f"{word} belongs to no option. {_choose_world(word)}"
    return f"{word!r} belongs to no option of {command.prog}. All of them: {command.prog} --help"


def _choose_world(given: str) -> str:
    """Returns how worlds are chosen, with the id that was given, if one was."""
    env_id = given if ENV_ID.fullmatch(given) else "ID"
    return (
        f"Worlds are chosen by their place in the mix, --worlds.0.env-id {env_id} (--worlds.1.env-id adds another); "
        f"one world alone is trained by python -m training {env_id}. All ids: python -m vlm_envs list"
    )
