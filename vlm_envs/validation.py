"""Validation of arguments and of the numbers in a configuration, with suggestions for misspelled names.

The name of a field depends on how it is set: `max_new_tokens` of `SamplingConfig` in Python is
`--sampling.max-new-tokens` on the trainer's command line, and `max_attempts` of `EndpointConfig` is
`--max-attempts` on the judges'. A command line therefore builds its configuration within `fields_named`, so
that messages name the options.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from numbers import Integral, Real

from vlm_envs.errors import ConfigError

_SHARED = re.compile(r"^--(?:.*\.)?|^.*/|-v\d+$")
_LEAST_RATIO = 0.65
"""The ratio is 0.67 for 'amr' and 'arm', but 0.6 for 'Nope' and 'Hopper'."""


def did_you_mean(name: str, known: Iterable[str], *, prefix: str = "") -> str:
    """Returns ``" Did you mean 'x'?"`` for the closest known name after a prefix, to be appended; may be empty.

    Names must also be similar without the parts that many share: dashes, groups of options, namespaces, and
    versions.
    """
    own = difflib.SequenceMatcher(b=_SHARED.sub("", name))
    alike = []
    for other in known:
        own.set_seq1(_SHARED.sub("", other))
        if own.ratio() >= _LEAST_RATIO:
            alike.append(other)
    close = difflib.get_close_matches(name, alike, n=1, cutoff=_LEAST_RATIO)
    return f" Did you mean {prefix + close[0]!r}?" if close else ""


def require(condition: bool, message: str) -> None:
    """Raises `ConfigError` with a message unless a condition holds."""
    if not condition:
        raise ConfigError(message)


def require_choice(what: str, value: object, choices: Iterable[str]) -> str:
    """Returns `value` if it is one of `choices`, else raises `ConfigError`; `what` names the argument."""
    allowed = list(choices)
    if isinstance(value, str) and value in allowed:
        return value
    hint = did_you_mean(value, allowed) if isinstance(value, str) else ""
    raise ConfigError(f"{what} must be one of {', '.join(map(repr, allowed))}; got {value!r}.{hint}")


def require_positive(what: str, value: object, *, minimum: int = 1, maximum: int | None = None) -> int:
    """Returns `value` if it is an integer of at least `minimum`, and at most `maximum` if given, else raises."""
    is_in_range = isinstance(value, int) and minimum <= value <= (value if maximum is None else maximum)
    if isinstance(value, bool) or not isinstance(value, int) or not is_in_range:
        allowed = f"of at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
        raise ConfigError(f"{what} must be an integer {allowed}; got {value!r}.")
    return value


def require_flag(what: str, value: object) -> bool:
    """Returns `value` if it is True or False, else raises `ConfigError`, since `"no"` would count as true."""
    if not isinstance(value, bool):
        raise ConfigError(f"{what} must be True or False; got {value!r}.")
    return value


def require_finite(what: str, value: object) -> float:
    """Returns `value` if it is a finite number, else raises `ConfigError`."""
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise ConfigError(f"{what} must be a finite number; got {value!r}.")
    return float(value)


def require_range(what: str, value: object) -> tuple[int, int]:
    """Returns both ends of a range, given as a pair or as one integer for both, else raises."""
    pair = list(value) if isinstance(value, list | tuple) else [value, value]
    whole = [int(number) for number in pair if not isinstance(number, bool) and isinstance(number, Integral)]
    if len(pair) != 2 or len(whole) != 2:
        raise ConfigError(f"{what} must be an integer, or the smallest and the largest one; got {value!r}.")
    return whole[0], whole[1]


def as_names(value: Iterable[str]) -> tuple[str, ...]:
    """Returns names that an argument lists; a single name may be given without a list."""
    return (value,) if isinstance(value, str) else tuple(value)


_OPTIONS: ContextVar[Mapping[type, Mapping[str, str]]] = ContextVar("_OPTIONS")


@contextmanager
def fields_named(options: Mapping[type, Mapping[str, str]]) -> Iterator[None]:
    """Makes messages about a configuration's fields name these options instead of the fields, within the block.

    Args:
        options: The option of each field by configuration type: `{SamplingConfig: {"top_p":
            "--sampling.top-p"}}`.
    """
    token = _OPTIONS.set({**_OPTIONS.get({}), **options})
    try:
        yield
    finally:
        _OPTIONS.reset(token)


def field_name(config: object, field: str) -> str:
    """Returns the user's name of a field: the option that sets it, or its own name."""
    return _OPTIONS.get({}).get(type(config), {}).get(field, field)


def require_at_least(config: object, minimum: float, *fields: str) -> None:
    """Raises unless each field is a finite number of at least `minimum`; None passes.

    Args:
        config: Object that has the fields.
        minimum: Smallest allowed value.
        fields: Their names.

    Raises:
        ConfigError: With the name, the range, and the value.
    """
    _require(config, fields, f"at least {minimum}", lambda value: minimum <= value < math.inf)


def require_above(config: object, bound: float, *fields: str) -> None:
    """Raises unless each field is a finite number above `bound`; otherwise like `require_at_least`."""
    _require(config, fields, f"above {bound}", lambda value: bound < value < math.inf)


def require_between(
    config: object, low: float, high: float, *fields: str, includes: tuple[bool, bool] = (True, True)
) -> None:
    """Raises unless each field is a number between two others; otherwise like `require_at_least`.

    Args:
        config: Object that has the fields.
        low: Lower end of the range.
        high: Upper end of the range.
        fields: Their names.
        includes: Whether each end belongs to the range.
    """
    from_low, to_high = includes
    _require(
        config,
        fields,
        f"{'at least' if from_low else 'above'} {low} and {'at most' if to_high else 'below'} {high}",
        lambda value: low <= value <= high and (from_low or value != low) and (to_high or value != high),
    )


def _require(config: object, fields: tuple[str, ...], allowed: str, is_allowed: Callable[[float], bool]) -> None:
    for field in fields:
        value = getattr(config, field)
        if isinstance(value, str):
            raise ConfigError(f"{field_name(config, field)} must be a number; got {value!r}.")
        if value is not None and not is_allowed(value):
            finite = " and finite" if value == math.inf else ""
            raise ConfigError(f"{field_name(config, field)} must be {allowed}{finite}; got {value}.")
