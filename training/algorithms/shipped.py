"""The algorithms that come with the project, and how any is found by its name."""

from __future__ import annotations

import inspect
from dataclasses import MISSING, fields
from typing import get_args

from training.algorithms.algorithm import Algorithm
from training.algorithms.bilevel_gae import BilevelGAE
from training.algorithms.grpo import GRPO
from training.algorithms.token_gae import TokenGAE
from training.algorithms.turn_gae import TurnGAE
from vlm_envs.arguments.faults import import_named
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
        ConfigError: If there is none, it is only a base of algorithms, or a setting has no default.
    """
    if name in SHIPPED:
        return SHIPPED[name]
    module, colon, attribute = name.partition(":")
    if not (colon and module):
        raise ConfigError(
            f"Unknown algorithm {name!r}.{did_you_mean(name, SHIPPED)} Known: {', '.join(SHIPPED)}; one of your own is "
            "MODULE:CLASS."
        )
    instead = "Run from the folder that holds it, or name that folder in PYTHONPATH."
    there = vars(import_named(module, option=f"--algorithm {name}", instead=instead))
    found = there.get(attribute)
    if not (isinstance(found, type) and issubclass(found, Algorithm)) or inspect.isabstract(found):
        known = [key for key, each in there.items() if isinstance(each, type) and issubclass(each, Algorithm)]
        hint = did_you_mean(attribute, known)
        raise ConfigError(f"--algorithm {name}: {module} has no algorithm {attribute!r}.{hint}")
    if required := [each.name for each in fields(found) if each.default is each.default_factory is MISSING]:
        raise ConfigError(f"--algorithm {name}: give its setting {required[0]!r} a default; every setting needs one.")
    return found
