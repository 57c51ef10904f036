"""The worlds of a run as options: `--worlds.0.kwargs.max-turns 5`."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from training.config.update_config import AdamWConfig
from training.config.world_spec import WorldSpec
from training.pools.pool_config import PoolConfig
from vlm_envs.cli.named_worlds import parse_settings
from vlm_envs.command_line import Program
from vlm_envs.errors import ConfigError
from vlm_envs.validation import did_you_mean, fields_named, require

ENV_ID = re.compile(r"adapt:.+|(?:[\w.]+:)?[\w.-]+/[\w.-]+-v\d+|(?!\S+\.py:)[\w.]+:(?:[\w.-]+/)?[\w.-]+", re.DOTALL)
"""An id as the trainer takes it: an adapted world, with namespace and version, or as it is registered by the module in
front."""
_WORLD_OPTION = re.compile(
    r"--worlds\.(?P<number>\d+)\.(?:(?P<part>kwargs|pool|cold[_-]start[_-]pool)\.)?(?P<name>[\w-]+)(?:=(?P<value>.*))?",
    re.DOTALL,
)

_POOLS = ("pool", "cold_start_pool")
_OPTIONAL = {"name", "num_workers", "cold_start_suboptimal_rate", "cold_start_weight", *_POOLS}
_POOL_FLAGS = ("drop_hopeless", "drop_trivial")
_POOL_NUMBERS: dict[str, tuple[str, Callable[[str], float]]] = {
    "min_pass_rate": ("a number", float),
    "max_pass_rate": ("a number", float),
    "min_solution_length": ("a whole number", int),
    "max_solution_length": ("a whole number", int),
    "draw": ("a whole number", int),
    "attempts": ("a whole number", int),
}
_NUMBERS: dict[str, tuple[str, Callable[[str], float]]] = {
    "weight": ("a number", lambda value: float(ast.literal_eval(value))),
    "cold_start_suboptimal_rate": ("a number", float),
    "cold_start_weight": ("a number", float),
    "num_workers": ("a whole number", int),
    "step_timeout_s": ("a number", float),
}
"""What the fields of a world that are numbers take, and how it is read."""


_OF_CRITIC = {
    f"--algorithm.critic.{name}": f"The critic has the policy's --ppo.{name}."
    for name in (setting.name.replace("_", "-") for setting in fields(AdamWConfig))
}


@dataclass(frozen=True, kw_only=True)
class Training(Program):
    """The trainer, whose users often say which worlds they mean in words of their own."""

    hints: Mapping[str, str] | None = field(default_factory=lambda: _OF_CRITIC)

    def refusal(self, option: str, value: str) -> str:
        """Returns how worlds are chosen, where an option tries to."""
        return f"{option} is no option. {_choose_world(value)}" if option.startswith("--worlds") else ""

    def hint(self, option: str) -> str:
        """Returns how an argument of a world is given."""
        return f" An argument of a world is --worlds.0.kwargs.{option.removeprefix('--')}."

    def stray(self, word: str) -> str:
        """Returns how worlds are chosen, where a word is the id of one."""
        return f"{word} belongs to no option. {_choose_world(word)}" if ENV_ID.fullmatch(word) else super().stray(word)


def _choose_world(given: str) -> str:
    """Returns how worlds are chosen, with the id that was given, if one was."""
    env_id = given if ENV_ID.fullmatch(given) else "ID"
    return (
        f"Worlds are chosen by their place in the mix, --worlds.0.env-id {env_id} (--worlds.1.env-id adds another); "
        f"one world alone is trained by python -m training {env_id}. All ids: python -m vlm_envs list"
    )


def read_world_options(words: Sequence[str], worlds: Sequence[WorldSpec]) -> tuple[tuple[WorldSpec, ...], list[str]]:
    """Applies the options that begin with `--worlds.`; a world's arguments are too many to be known beforehand.

    Returns:
        The mix with its changes, and the other words.

    Raises:
        ConfigError: If an option cannot be read or a world cannot be had.
    """
    changes: dict[int, dict[str, Any]] = {}
    given, rest = _split(words)
    for word, *behind in given:
        match = _matched(word)
        values = behind if match["value"] is None else [match["value"]]
        name = match["name"].replace("-", "_")
        change = changes.setdefault(int(match["number"]), {"kwargs": {}})
        part, option = (match["part"] or "").replace("-", "_"), word.partition("=")[0]
        if part == "kwargs":
            change["kwargs"] |= dict([_argument(name, values)])
        elif part:
            change[part] = {**(change.get(part) or {}), **dict([_pool_field(option, name, values)])}
        else:
            change[name] = _field(option, name, values)
    return _changed(tuple(worlds), changes), rest


def world_words(words: Sequence[str], *, without_pool_of: int) -> list[str]:
    """Returns the options that begin with `--worlds.` and their values, as they were given.

    Args:
        words: A command line.
        without_pool_of: Place of the world whose pool is left out.
    """
    kept = []
    for option in _split(words)[0]:
        match = _matched(option[0])
        is_of_pool = "pool" in (match["part"], match["name"] if match["part"] is None else None)
        if not (is_of_pool and int(match["number"]) == without_pool_of):
            kept += option
    return kept


def _split(words: Sequence[str]) -> tuple[list[list[str]], list[str]]:
    """Returns each option of a world with the values behind it, and the other words."""
    left, given, rest = list(words), [], []
    while left:
        word = left.pop(0)
        match = _WORLD_OPTION.fullmatch(word)
        if match is None:
            rest.append(word)
        else:
            given.append([word, *(_values(left) if match["value"] is None else [])])
    return given, rest


def _matched(word: str) -> re.Match[str]:
    """Returns the parts of what is an option of a world."""
    match = _WORLD_OPTION.fullmatch(word)
    assert match is not None, word
    return match


def _values(left: list[str]) -> list[str]:
    """Takes the words up to the next option off the front."""
    values = []
    while left and not left[0].startswith("--") and left[0] != "-h":
        values.append(left.pop(0))
    return values


def _argument(name: str, values: list[str]) -> tuple[str, Any]:
    """Returns a world's argument: a flag, one value, or several as a tuple."""
    if not values:
        return (name.removeprefix("no_"), False) if name.startswith("no_") else (name, True)
    read = tuple(parse_settings([f"{name}={value}"])[name] for value in values)
    return name, read[0] if len(read) == 1 else read


def _pool_field(option: str, name: str, values: list[str]) -> tuple[str, Any]:
    """Returns a setting of a pool."""
    known = {each.name: each.default for each in fields(PoolConfig)}
    is_off = name.removeprefix("no_") in _POOL_FLAGS and name.startswith("no_")
    name = name.removeprefix("no_") if is_off else name
    if name not in known:
        raise ConfigError(f"{option}: a pool has {', '.join(known)}.{did_you_mean(name, list(known))}")
    if name in _POOL_FLAGS and (not values or is_off):
        require(not values, f"{option} takes no value; got {' '.join(values)}.")
        return name, not is_off
    if name == "exclude":
        return name, tuple(values)
    require(len(values) == 1, f"{option} takes one value; got {' '.join(values) or 'none'}.")
    if values[0] == "None" and known[name] is None:
        return name, None
    if name in _POOL_FLAGS or name not in _POOL_NUMBERS:
        require(name not in _POOL_FLAGS, f"{option} takes no value; got {values[0]}.")
        return name, values[0]
    return name, _read_number(option, *_POOL_NUMBERS[name], values[0])


def _field(option: str, name: str, values: list[str]) -> Any:
    known = [each.name for each in fields(WorldSpec) if each.name != "kwargs"]
    if name not in known:
        raise ConfigError(
            f"{option}: a world of a mix has {', '.join(known)} and kwargs.{did_you_mean(name, known)} For an argument "
            f"of the world itself: --worlds.0.kwargs.{name.replace('_', '-')}"
        )
    if name in _POOLS and values != ["None"]:
        raise ConfigError(f"{option} has settings of its own: {option}.file FILE; or None for no pool.")
    if len(values) != 1:
        raise ConfigError(f"{option} takes one value; got {' '.join(values) or 'none'}.")
    if name in _OPTIONAL and values[0] == "None":
        return None
    if name not in _NUMBERS:
        return values[0]
    return _read_number(option, *_NUMBERS[name], values[0])


def _read_number(option: str, what: str, read: Callable[[str], float], value: str) -> float:
    try:
        return read(value)
    except (ValueError, SyntaxError, TypeError):
        raise ConfigError(f"{option} takes {what}; got {value!r}.") from None


def _changed(worlds: tuple[WorldSpec, ...], changes: dict[int, dict[str, Any]]) -> tuple[WorldSpec, ...]:
    """Returns the mix with the changes of each world; the number after the last adds one."""
    for number, change in sorted(changes.items()):
        if number < len(worlds):
            old = worlds[number]
            pools = {name: _pool(number, name, change.pop(name, {}), getattr(old, name)) for name in _POOLS}
            new = _spec(number, vars(old) | change | pools | {"kwargs": {**old.kwargs, **change["kwargs"]}})
            worlds = (*worlds[:number], new, *worlds[number + 1 :])
        elif number == len(worlds) and "env_id" in change:
            pools = {name: _pool(number, name, change.pop(name, {}), None) for name in _POOLS}
            worlds = (*worlds, _spec(number, change | pools))
        else:
            raise ConfigError(
                f"--worlds.{number}: the mix has {len(worlds)} world{'s' * (len(worlds) != 1)}, counted from 0. "
                f"--worlds.{len(worlds)}.env-id ID adds one."
            )
    return worlds


def _pool(number: int, name: str, settings: dict[str, Any] | None, old: PoolConfig | None) -> PoolConfig | None:
    """Returns the pool of a world with its changed settings; without any, where these are None."""
    if not settings:
        return None if settings is None else old
    option = f"--worlds.{number}.{name.replace('_', '-')}"
    if old is None and "file" not in settings:
        raise ConfigError(f"{option} needs a file of levels: {option}.file FILE.")
    names = {each.name: f"{option}.{each.name.replace('_', '-')}" for each in fields(PoolConfig)}
    with fields_named({PoolConfig: names}):
        return PoolConfig(**{**(vars(old) if old is not None else {}), **settings})


def _spec(number: int, settings: dict[str, Any]) -> WorldSpec:
    names = {each.name: f"--worlds.{number}.{each.name.replace('_', '-')}" for each in fields(WorldSpec)}
    with fields_named({WorldSpec: names}):
        return WorldSpec(**settings)
