"""Command-line options for the worlds of a run, such as `--worlds.0.kwargs.max-turns 5`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, get_args, get_origin, get_type_hints

from training.config.update_config import AdamWConfig
from training.config.world_spec import WorldSpec
from training.pools.pool_config import PoolConfig
from vlm_envs.cli.named_worlds import parse_settings
from vlm_envs.command_line import Program
from vlm_envs.errors import ConfigError
from vlm_envs.validation import did_you_mean, fields_named, require

ENV_ID = re.compile(r"adapt:.+|(?:[\w.]+:)?[\w.-]+/[\w.-]+-v\d+|(?!\S+\.py:)[\w.]+:(?:[\w.-]+/)?[\w.-]+", re.DOTALL)
"""A world id that the trainer accepts: an adapted world, a registered id, or an id prefixed with the
module that registers it."""
_WORLD_OPTION = re.compile(
    r"--worlds\.(?P<number>\d+)\.(?:(?P<part>kwargs|pool|cold[_-]start[_-]pool)\.)?(?P<name>[\w-]+)(?:=(?P<value>.*))?",
    re.DOTALL,
)

_POOLS = ("pool", "cold_start_pool")

_OF_CRITIC = {
    f"--algorithm.critic.{name}": f"The critic has the policy's --ppo.{name}."
    for name in (setting.name.replace("_", "-") for setting in fields(AdamWConfig))
}


@dataclass(frozen=True, kw_only=True)
class Training(Program):
    """The training program, with messages for common mistakes in choosing worlds."""

    hints: Mapping[str, str] | None = field(default_factory=lambda: _OF_CRITIC)

    def refusal(self, option: str, value: str) -> str:
        """Returns how to choose worlds if an option attempts to."""
        return f"{option} is not an option. {_choose_world(value)}" if option.startswith("--worlds") else ""

    def hint(self, option: str) -> str:
        """Returns how to set an argument of a world."""
        if option.startswith("--algorithm."):
            return " The algorithm has no such setting. Choose another algorithm with --algorithm NAME."
        return f" An argument of a world is --worlds.0.kwargs.{option.removeprefix('--')}."

    def stray(self, word: str) -> str:
        """Returns how to choose worlds if a word is a world's id."""
        return f"{word} belongs to no option. {_choose_world(word)}" if ENV_ID.fullmatch(word) else super().stray(word)


def _choose_world(given: str) -> str:
    """Returns how to choose worlds, with the given id if there is one."""
    env_id = given if ENV_ID.fullmatch(given) else "ID"
    return (
        f"Choose worlds by their index in the mix, --worlds.0.env-id {env_id} (--worlds.1.env-id adds another); "
        f"to train on one world alone: python -m training {env_id}. All ids: python -m vlm_envs list"
    )


def read_world_options(words: Sequence[str], worlds: Sequence[WorldSpec]) -> tuple[tuple[WorldSpec, ...], list[str]]:
    """Applies the options that begin with `--worlds.`, as a parser cannot know all arguments of worlds in advance.

    Returns:
        The changed worlds, and the remaining words.

    Raises:
        ConfigError: If an option is invalid or a world is unavailable.
    """
    changes: dict[int, dict[str, Any]] = {}
    rest: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        match = _WORLD_OPTION.fullmatch(word)
        if match is None:
            rest.append(word)
            continue
        values = _values(left) if match["value"] is None else [match["value"]]
        name, part = match["name"].replace("-", "_"), (match["part"] or "").replace("-", "_")
        change = changes.setdefault(int(match["number"]), {"kwargs": {}})
        option = word.partition("=")[0]
        if part == "kwargs":
            change["kwargs"] |= dict([_argument(name, values)])
        elif part:
            change[part] = {**(change.get(part) or {}), **dict([_field(PoolConfig, option, name, values)])}
        elif name in _POOLS and values != ["None"]:
            raise ConfigError(f"{option} has its own settings: {option}.file FILE; or None for no pool.")
        else:
            change |= dict([_field(WorldSpec, option, name, values)])
    return _changed(tuple(worlds), changes), rest


def _values(left: list[str]) -> list[str]:
    """Removes the words up to the next option from the front and returns them."""
    values = []
    while left and not left[0].startswith("--") and left[0] != "-h":
        values.append(left.pop(0))
    return values


def _argument(name: str, values: list[str]) -> tuple[str, Any]:
    """Returns a world's argument: True or False for a flag, one value, or several as a tuple."""
    if not values:
        return (name.removeprefix("no_"), False) if name.startswith("no_") else (name, True)
    read = tuple(parse_settings([f"{name}={value}"])[name] for value in values)
    return name, read[0] if len(read) == 1 else read


def _field(kind: type, option: str, name: str, values: list[str]) -> tuple[str, Any]:
    """Returns the name and value of a field of a world or of its pool, parsed by its type annotation."""
    hints = {field: hint for field, hint in get_type_hints(kind).items() if field != "kwargs"}
    is_off = name.startswith("no_") and hints.get(name.removeprefix("no_")) is bool
    name = name.removeprefix("no_") if is_off else name
    if name not in hints:
        argument = f" For an argument of the world itself: --worlds.0.kwargs.{name.replace('_', '-')}"
        raise ConfigError(
            f"{option}: choose one of {', '.join(hints)}.{did_you_mean(name, hints)}{argument * (kind is WorldSpec)}"
        )
    hint = hints[name]
    if hint is bool:
        require(not values, f"{option} takes no value; got {' '.join(values)}.")
        return name, not is_off
    if get_origin(hint) is tuple:
        return name, tuple(values)
    require(len(values) == 1, f"{option} takes one value; got {' '.join(values) or 'none'}.")
    types = get_args(hint) or (hint,)
    if values[0] == "None" and type(None) in types:
        return name, None
    for number, what in ((int, "a whole number"), (float, "a number")):
        if number in types:
            try:
                return name, number(values[0])
            except ValueError:
                raise ConfigError(f"{option} takes {what}; got {values[0]!r}.") from None
    return name, values[0]


def _changed(worlds: tuple[WorldSpec, ...], changes: dict[int, dict[str, Any]]) -> tuple[WorldSpec, ...]:
    """Returns the mix with the changes applied; the number after the last world adds one."""
    for number, change in sorted(changes.items()):
        if number > len(worlds) or (number == len(worlds) and "env_id" not in change):
            raise ConfigError(
                f"--worlds.{number}: the mix has {len(worlds)} world{'s' * (len(worlds) != 1)}, counted from 0. "
                f"--worlds.{len(worlds)}.env-id ID adds one."
            )
        old = vars(worlds[number]) if number < len(worlds) else {}
        option = f"--worlds.{number}"
        pools = {
            name: _pool(f"{option}.{name.replace('_', '-')}", change.pop(name, {}), old.get(name)) for name in _POOLS
        }
        settings = old | change | pools | {"kwargs": {**old.get("kwargs", {}), **change["kwargs"]}}
        with fields_named(_options_of(WorldSpec, option)):
            worlds = (*worlds[:number], WorldSpec(**settings), *worlds[number + 1 :])
    return worlds


def _pool(option: str, settings: dict[str, Any] | None, old: PoolConfig | None) -> PoolConfig | None:
    """Returns a world's pool with its changed settings; None removes it."""
    if not settings:
        return None if settings is None else old
    if old is None and "file" not in settings:
        raise ConfigError(f"{option} needs a file of levels: {option}.file FILE.")
    with fields_named(_options_of(PoolConfig, option)):
        return PoolConfig(**{**(vars(old) if old is not None else {}), **settings})


def _options_of(kind: Any, option: str) -> dict[type, dict[str, str]]:
    return {kind: {field.name: f"{option}.{field.name.replace('_', '-')}" for field in fields(kind)}}
