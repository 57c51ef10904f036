"""The built-in algorithms, and lookup of algorithms by name."""

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
"""Built-in algorithms by file name."""


def name_of(algorithm: Algorithm) -> str:
    """Returns the `--algorithm` value of an algorithm: the file name of a built-in one, or `MODULE:CLASS`."""
    kind = type(algorithm)
    own = f"{kind.__module__}:{kind.__qualname__}"
    return next((name for name, cls in SHIPPED.items() if cls is kind), own)


def algorithm_class(name: str) -> type[Algorithm]:
    """Returns the algorithm class with a name.

    Args:
        name: The name of a built-in algorithm, or `MODULE:CLASS` with an importable module.

    Raises:
        ConfigError: If it does not exist, is abstract, is not a frozen dataclass, or has a setting without a default.
    """
    if name in SHIPPED:
        return SHIPPED[name]
    module, colon, attribute = name.partition(":")
    if not (colon and module):
        raise ConfigError(
            f"Unknown algorithm {name!r}.{did_you_mean(name, SHIPPED)} Known: {', '.join(SHIPPED)}; name your own as "
            "MODULE:CLASS."
        )
    instead = "Run from the folder that holds it, or name that folder in PYTHONPATH."
    there = vars(import_named(module, option=f"--algorithm {name}", instead=instead))
    if attribute not in there:
        candidates = [key for key, value in there.items() if _is_algorithm(value) and not inspect.isabstract(value)]
        hint = did_you_mean(attribute, candidates)
        raise ConfigError(f"--algorithm {name}: {module} has no algorithm {attribute!r}.{hint}")
    found = there[attribute]
    if not _is_algorithm(found):
        raise ConfigError(f"--algorithm {name} is not a subclass of Algorithm. Name one.")
    if lacking := sorted(found.__abstractmethods__):
        raise ConfigError(f"--algorithm {name} is abstract: it lacks {' and '.join(lacking)}.")
    if "__dataclass_params__" not in vars(found):
        raise ConfigError(f"--algorithm {name} is not a frozen dataclass: add @dataclass(frozen=True, kw_only=True).")
    if required := [field.name for field in fields(found) if field.default is field.default_factory is MISSING]:
        raise ConfigError(f"--algorithm {name}: give its setting {required[0]!r} a default; every setting needs one.")
    return found


def _is_algorithm(value: object) -> TypeGuard[type[Algorithm]]:
    return isinstance(value, type) and issubclass(value, Algorithm)
