"""What a caller hands to all worlds at once, checked and spread over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vlm_envs.errors import ConfigError
from vlm_envs.vector.episodes import Flags


def reset_mask(mask: Any, num_envs: int) -> Flags:
    """Returns which worlds are to be reset, bool[N]; None stands for all.

    Raises:
        ConfigError: If the mask is another thing.
    """
    if mask is None:
        return np.ones(num_envs, np.bool_)
    array = np.asarray(mask)
    if array.dtype != np.bool_ or array.shape != (num_envs,) or not array.any():
        raise ConfigError(f"options['reset_mask'] must be bool[{num_envs}] with at least one True; got {mask!r}.")
    return array


def reset_seeds(seed: int | Sequence[int | None] | None, num_envs: int) -> list[int | None]:
    """Returns one seed per world; an integer s stands for s, s + 1, ..., s + N - 1.

    Raises:
        ConfigError: If there is not one per world.
    """
    if seed is None:
        return [None] * num_envs
    if isinstance(seed, int | np.integer):
        return [int(seed) + i for i in range(num_envs)]
    if len(seed) != num_envs:
        raise ConfigError(f"seed must be an integer or {num_envs} seeds, one per world; got {len(seed)}.")
    return [None if one is None else int(one) for one in seed]


def reset_levels(levels: Any, num_envs: int) -> list[str | None]:
    """Returns one level text per world, None where the seed draws it; None stands for that everywhere.

    Raises:
        ConfigError: If there is not one per world.
    """
    if levels is None:
        return [None] * num_envs
    is_listed = isinstance(levels, list | tuple) and all(isinstance(each, str | None) for each in levels)
    if not is_listed or len(levels) != num_envs:
        came = f"{len(levels)} of them" if is_listed else repr(levels)
        raise ConfigError(f"options['levels'] must be {num_envs} level texts or None, one per world; got {came}.")
    return list(levels)


def acting_worlds(actions: Sequence[str | None], num_envs: int) -> Flags:
    """Returns which worlds are given a response, bool[N].

    Raises:
        ConfigError: If there is not one action per world.
    """
    if isinstance(actions, str) or len(actions) != num_envs:
        came = "one string" if isinstance(actions, str) else f"{len(actions)} actions"
        raise ConfigError(f"step() takes {num_envs} responses, one per world; got {came}.")
    return np.array([action is not None for action in actions], np.bool_)
