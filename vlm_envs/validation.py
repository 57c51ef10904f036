"""Checks of a configuration's numbers, whose messages call a field what its user calls it.

A configuration does not know where it stands: `max_new_tokens` of `SamplingConfig` in Python is
`--sampling.max-new-tokens` on the trainer's command line, and `max_attempts` of `EndpointConfig` is `--max-attempts` on
the judges'. A command line says so with `fields_named` while it builds its configuration.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from vlm_envs.errors import ConfigError

_OPTIONS: ContextVar[Mapping[type, Mapping[str, str]]] = ContextVar("_OPTIONS")


@contextmanager
def fields_named(options: Mapping[type, Mapping[str, str]]) -> Iterator[None]:
    """Within the block, messages about a configuration's fields name these options in place of the fields.

    Args:
        options: For a configuration's type the option of each field: `{SamplingConfig: {"top_p": "--sampling.top-p"}}`.
    """
    token = _OPTIONS.set({**_OPTIONS.get({}), **options})
    try:
        yield
    finally:
        _OPTIONS.reset(token)


def field_name(config: object, field: str) -> str:
    """Returns what the user calls a field: the option it was given by, or its own name."""
    return _OPTIONS.get({}).get(type(config), {}).get(field, field)


def require_at_least(config: object, minimum: float, *fields: str) -> None:
    """Raises unless each field is a finite number of at least `minimum`; None, where a field may be that, passes.

    Args:
        config: What the fields belong to.
        minimum: Smallest allowed value.
        fields: Their names.

    Raises:
        ConfigError: With the name, the range and the value.
    """
    _require(config, fields, f"at least {minimum}", lambda value: minimum <= value < math.inf)


def require_above(config: object, bound: float, *fields: str) -> None:
    """Raises unless each field is a finite number above `bound`; otherwise as `require_at_least`."""
    _require(config, fields, f"above {bound}", lambda value: bound < value < math.inf)


def require_between(
    config: object, low: float, high: float, *fields: str, includes: tuple[bool, bool] = (True, True)
) -> None:
    """Raises unless each field is a number between two others; otherwise as `require_at_least`.

    Args:
        config: What the fields belong to.
        low: Lower end of the range.
        high: Upper end of the range.
        fields: Their names.
        includes: Whether each end is in the range itself.
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
