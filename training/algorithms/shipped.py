"""The algorithms that come with the project, and how any is found by its name."""

from __future__ import annotations

import importlib
from dataclasses import asdict
from typing import Any, get_args

from training.algorithms.algorithm import Algorithm
from training.algorithms.bilevel_gae import BilevelGAE
from training.algorithms.grpo import GRPO
from training.algorithms.token_gae import TokenGAE
from training.algorithms.turn_gae import TurnGAE
from vlm_envs.errors import ConfigError, did_you_mean

ShippedAlgorithm = BilevelGAE | TokenGAE | TurnGAE | GRPO

SHIPPED: dict[str, type[Algorithm]] = {kind.__module__.rpartition(".")[2]: kind for kind in get_args(ShippedAlgorithm)}
"""By the names of their files."""


def name_of(algorithm: Algorithm) -> str:
    """Returns what `--algorithm` calls an algorithm: a shipped one's file, or `MODULE:CLASS`."""
    kind = type(algorithm)
    own = f"{kind.__module__}:{kind.__qualname__}"
    return next((name for name, each in SHIPPED.items() if each is kind), own)


def algorithm_class(name: str) -> type[Algorithm]:
    """Returns the algorithm of a name.

    Args:
        name: A shipped one's, or `MODULE:CLASS` as in an import statement.

    Raises:
        ConfigError: If there is none.
    """
    if name in SHIPPED:
        return SHIPPED[name]
    module, colon, attribute = name.partition(":")
    if not colon:
        raise ConfigError(
            f"Unknown algorithm {name!r}.{did_you_mean(name, SHIPPED)} Known: {', '.join(SHIPPED)}; one of your own is "
            "MODULE:CLASS."
        )
    try:
        found = getattr(importlib.import_module(module), attribute, None)
    except ImportError as error:
        raise ConfigError(f"--algorithm {name}: cannot import {module!r}: {error}.") from error
    if not (isinstance(found, type) and issubclass(found, Algorithm)):
        raise ConfigError(f"--algorithm {name}: {module} has no algorithm {attribute!r}.")
    return found


def to_dict(algorithm: Algorithm) -> dict[str, Any]:
    """Returns an algorithm as plain data: its name under `class`, which no setting can be called, and its settings."""
    return {"class": name_of(algorithm), **asdict(algorithm)}
