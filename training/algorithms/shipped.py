"""The algorithms that come with the project, and how any is found by its name."""

from __future__ import annotations

import inspect
from dataclasses import MISSING, fields
from typing import TypeGuard, get_args

from training.algorithms.algorithm import Algorithm
from training.algorithms.bilevel_gae import BilevelGAE
from training.algorithms.dapo import DAPO
from training.algorithms.gigpo import GiGPO
from training.algorithms.grpo import GRPO
from training.algorithms.gspo import GSPO
from training.algorithms.reinforce_plus_plus import ReinforcePlusPlus
from training.algorithms.rloo import RLOO
from training.algorithms.token_gae import TokenGAE
from training.algorithms.turn_gae import TurnGAE
from vlm_envs.errors import ConfigError
from vlm_envs.user_code import import_named
from vlm_envs.validation import did_you_mean

ShippedAlgorithm = BilevelGAE | TokenGAE | TurnGAE | GRPO | DAPO | GSPO | GiGPO | RLOO | ReinforcePlusPlus

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
        ConfigError: If there is none, it is abstract or no frozen dataclass, or a setting has no default.
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
    if attribute not in there:
        known = [key for key, each in there.items() if _is_algorithm(each) and not inspect.isabstract(each)]
        hint = did_you_mean(attribute, known)
        raise ConfigError(f"--algorithm {name}: {module} has no algorithm {attribute!r}.{hint}")
    found = there[attribute]
    if not _is_algorithm(found):
        raise ConfigError(f"--algorithm {name} is no Algorithm: name a class derived from it.")
    if lacking := sorted(found.__abstractmethods__):
        raise ConfigError(f"--algorithm {name} is abstract: it lacks {' and '.join(lacking)}.")
    if "__dataclass_params__" not in vars(found):
        raise ConfigError(f"--algorithm {name} is no frozen dataclass: add @dataclass(frozen=True, kw_only=True).")
    if required := [each.name for each in fields(found) if each.default is each.default_factory is MISSING]:
        raise ConfigError(f"--algorithm {name}: give its setting {required[0]!r} a default; every setting needs one.")
    return found


def _is_algorithm(value: object) -> TypeGuard[type[Algorithm]]:
    return isinstance(value, type) and issubclass(value, Algorithm)
