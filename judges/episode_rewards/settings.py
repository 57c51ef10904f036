"""The constants of a reward: a frozen dataclass whose fields a user may set by name, and the list of them.

class Settings(RewardSettings)      defaults, ranges; each field's docstring ends with its source
`answer_weight=1.5`  ── read ──>    the same class, one field changed
`constants_of`       ── list ──>    name, default, meaning, source, for commands and documentation
"""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from numbers import Integral, Real
from typing import Any, TypeVar

from vlm_envs.errors import ConfigError
from vlm_envs.validation import did_you_mean, field_name, fields_named, require_choice, require_finite, require_flag

_ENTRY = re.compile(r"^    (\w+): (.+(?:\n {8,}\S.*)*)", re.MULTILINE)
_SOURCE = "Source: "


@dataclass(frozen=True, kw_only=True)
class RewardSettings:
    """Constants of a reward. A subclass adds fields; each one's docstring entry ends with `Source:`."""

    def __post_init__(self) -> None:
        """Refuses values of another type, which `-O` or a typo would else let pass; subclasses check the ranges."""
        hints = typing.get_type_hints(type(self))
        for each in fields(self):
            _require_type(field_name(self, each.name), hints[each.name], getattr(self, each.name))

    @property
    def given(self) -> tuple[str, ...]:
        """What differs from the defaults, each as `name=value`: the `reward_settings` of a run or a curation."""
        values = {each.name: (getattr(self, each.name), each.default) for each in fields(self)}
        return tuple(f"{name}={value!r}" for name, (value, default) in values.items() if value != default)


SettingsT = TypeVar("SettingsT", bound=RewardSettings)


@dataclass(frozen=True, kw_only=True)
class Constant:
    """One setting of a reward, as it is listed.

    Attributes:
        name: What it is set by.
        default: Its value unless it is set.
        meaning: What it does, in a sentence or two.
        source: Paper and equation, table or section, or that it is our choice.
    """

    name: str
    default: Any
    meaning: str
    source: str


def changed(settings: SettingsT, given: Mapping[str, Any], *, of: str, option: str = "setting") -> SettingsT:
    """Returns settings of which some are changed.

    Args:
        settings: The others.
        given: New values by name.
        of: The reward's name, for the error.
        option: What the values were given by, for the error.

    Raises:
        ConfigError: There is no setting of a name, with the closest there is, or a value has the wrong type or is out
            of its range.
    """
    require_known(given, [each.name for each in fields(settings)], of=of)
    with fields_named({type(settings): {name: f"{option} {name}" for name in given}}):
        return replace(settings, **given)


def require_known(given: Mapping[str, Any], known: list[str], *, of: str) -> None:
    """Refuses settings that a reward does not have; raises `ConfigError`, which suggests the closest."""
    for name in given:
        if name not in known:
            raise ConfigError(
                f"The reward {of!r} has no setting {name!r}; it has {', '.join(known) or 'none'}."
                f"{did_you_mean(name, known)}{' See all: python -m judges rewards.' * bool(known)}"
            )


def constants_of(settings: RewardSettings | None) -> list[Constant]:
    """Returns the constants in their order; none for a reward without settings."""
    if settings is None:
        return []
    told = dict(_documented(type(settings)))
    return [_constant(each.name, getattr(settings, each.name), told.get(each.name, "")) for each in fields(settings)]


def _constant(name: str, default: Any, told: str) -> Constant:
    meaning, _, source = told.partition(_SOURCE)
    return Constant(name=name, default=default, meaning=meaning.strip(), source=source.strip())


def _documented(kind: type) -> Iterator[tuple[str, str]]:
    """Yields each attribute's name and what the docstrings of its class and those above it say, these first."""
    for each in reversed(kind.__mro__):
        attributes = (inspect.cleandoc(each.__doc__ or "")).partition("\nAttributes:\n")[2]
        for name, text in _ENTRY.findall(attributes):
            yield name, " ".join(text.split())


def _require_type(name: str, hint: Any, value: object) -> None:
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        require_choice(name, value, typing.get_args(hint))
    elif hint is bool:
        require_flag(name, value)
    elif hint is int:
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise ConfigError(f"{name} must be a whole number; got {value!r}.")
    elif hint is float:
        if isinstance(value, bool) or not isinstance(value, Real):
            raise ConfigError(f"{name} must be a number; got {value!r}.")
        require_finite(name, value)
    elif not isinstance(value, types.NoneType | str):
        raise ConfigError(f"{name} must be text or None; got {value!r}.")
