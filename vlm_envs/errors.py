"""Every error this package raises on purpose.

One root, `VLMEnvsError`; each leaf also inherits the built-in exception a caller would expect, so
`except ValueError` keeps working. A message says what was expected, what came and what to do. Bad *model*
output never appears here: it is data and is explained in `info["parse_error"]`.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable
from numbers import Integral, Real

_SHARED = re.compile(r"^--(?:.*\.)?|^.*/|-v\d+$")
_LEAST_RATIO = 0.65
"""Of 'amr' and 'arm' it is 0.67, of 'Nope' and 'Hopper' 0.6."""


class VLMEnvsError(Exception):
    """Root of all errors raised on purpose by `vlm_envs`."""


class ConfigError(VLMEnvsError, ValueError):
    """An argument of a world, space or wrapper is not usable."""


class LevelError(VLMEnvsError, ValueError):
    """A level given by the caller cannot be read or cannot be solved."""


class GenerationError(VLMEnvsError, RuntimeError):
    """No level with the asked-for properties was found within the allowed tries."""


class SolverLimitError(VLMEnvsError, RuntimeError):
    """An exact solver stopped at its node limit, so the answer is unknown (never guessed)."""


class EpisodeOverError(VLMEnvsError, RuntimeError):
    """`step` was called before `reset` or after the episode had ended."""


class WorldContractError(VLMEnvsError, AssertionError):
    """A world breaks the contract that `vlm_envs.testing.contract.check_world` checks."""


class WorkerError(VLMEnvsError, RuntimeError):
    """A vector-env worker failed; the message carries the worker's own traceback."""


class EngineUnavailableError(VLMEnvsError, RuntimeError):
    """An engine that a world needs (simulator, renderer, driver) is missing or cannot start."""


def did_you_mean(name: str, known: Iterable[str], *, prefix: str = "") -> str:
    """Returns ``" Did you mean 'x'?"`` for the closest known name behind a prefix, to be appended; or nothing.

    Names must also be alike without what many of them share: dashes, groups of options, namespaces, and versions.
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
    """Returns `value` if it is one of `choices`, else raises `ConfigError`, which says `what` it is of."""
    allowed = list(choices)
    if isinstance(value, str) and value in allowed:
        return value
    hint = did_you_mean(value, allowed) if isinstance(value, str) else ""
    raise ConfigError(f"{what} must be one of {', '.join(map(repr, allowed))}; got {value!r}.{hint}")


def require_positive(what: str, value: object, *, minimum: int = 1, maximum: int | None = None) -> int:
    """Returns `value` if it is an integer of at least `minimum`, and at most `maximum` if there is one, else raises."""
    is_in_range = isinstance(value, int) and minimum <= value <= (value if maximum is None else maximum)
    if isinstance(value, bool) or not isinstance(value, int) or not is_in_range:
        allowed = f"of at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
        raise ConfigError(f"{what} must be an integer {allowed}; got {value!r}.")
    return value


def require_flag(what: str, value: object) -> bool:
    """Returns `value` if it is True or False, else raises `ConfigError`: `"no"` would count as true."""
    if not isinstance(value, bool):
        raise ConfigError(f"{what} must be True or False; got {value!r}.")
    return value


def require_finite(what: str, value: object) -> float:
    """Returns `value` if it is a finite number, else raises `ConfigError`."""
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise ConfigError(f"{what} must be a finite number; got {value!r}.")
    return float(value)


def require_range(what: str, value: object) -> tuple[int, int]:
    """Returns the least and the largest of a range that is given as both, or as one integer for both, else raises."""
    pair = list(value) if isinstance(value, list | tuple) else [value, value]
    whole = [int(each) for each in pair if not isinstance(each, bool) and isinstance(each, Integral)]
    if len(pair) != 2 or len(whole) != 2:
        raise ConfigError(f"{what} must be a whole number, or the least and the largest one; got {value!r}.")
    return whole[0], whole[1]


def as_names(value: Iterable[str]) -> tuple[str, ...]:
    """Returns names that an argument lists; one alone may stand without its list."""
    return (value,) if isinstance(value, str) else tuple(value)
