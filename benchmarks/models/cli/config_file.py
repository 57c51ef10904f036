"""`--config FILE.toml`: options from a file, under those of the command line."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any

from vlm_envs.command_line import Program, description_of, parsed
from vlm_envs.errors import ConfigError
from vlm_envs.validation import did_you_mean, require_flag

_OPTION = "--config"


def with_file(kind: type[Any], words: Sequence[str], prog: str) -> list[str]:
    """Returns a command line with the options of the file that it names in front of it.

    Args:
        kind: What holds the command's options.
        words: The command line. An option of it stands in place of the file's, of a list the whole list.
        prog: The command, for messages.

    Raises:
        ConfigError: If the file cannot be read, or holds something that is no option or no value of one.
    """
    path = _path(words)
    if path is None:
        return list(words)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"Cannot read {path}: {error}.") from error
    known = [each.name.replace("_", "-") for each in fields(kind) if f"--{each.name}" != _OPTION]
    options = {name.replace("_", "-"): value for name, value in content.items()}
    for name in options:
        if name not in known:
            hint = did_you_mean(name, known)
            raise ConfigError(f"{path}: there is no option {name!r}.{hint} There are: {', '.join(known)}.")
    flags = {each.name.replace("_", "-") for each in fields(kind) if each.type == "bool"}
    of_file = {name: list(_words(path, name, value, is_flag=name in flags)) for name, value in options.items()}
    try:
        parsed(kind, _flat(of_file.values()), Program(prog=prog, description=description_of(kind)))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    return [*_flat(of for name, of in of_file.items() if not _is_said(name, words)), *words]


def _path(words: Sequence[str]) -> Path | None:
    """Returns the file that a command line names, if it does; a missing name is left to the parser."""
    for word, after in pairwise([*words, ""]):
        option, _, value = word.partition("=")
        named = value or ("" if after.startswith("--") else after)
        if option == _OPTION and named:
            return Path(named)
    return None


def _words(path: Path, name: str, value: object, *, is_flag: bool) -> Iterable[str]:
    """Yields an option of a file as a command line has it."""
    if is_flag:
        require_flag(f"{path}: {name}", value)
        yield f"--{name}" if value else f"--no-{name}"
        return
    for each in value if isinstance(value, list) else [value]:
        if isinstance(each, bool) or not isinstance(each, str | int | float):
            raise ConfigError(f"{path}: {name} must be a text, a number or a list of those; got {each!r}.")
        yield f"--{name}={each}"


def _is_said(name: str, words: Sequence[str]) -> bool:
    said = {word.partition("=")[0].replace("_", "-") for word in words}
    return not said.isdisjoint({f"--{name}", f"--no-{name}"})


def _flat(lists: Iterable[Iterable[str]]) -> list[str]:
    return [each for one in lists for each in one]
