"""What a scorer of similarity is, and how a world is told which to use."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from vlm_envs.arguments.factories import made_by
from vlm_envs.errors import ConfigError, did_you_mean
from vlm_envs.worlds.svg.structural import StructuralScorer

BUILT_IN = {"structural": StructuralScorer}
"""Scorers that need no weights, by name."""

LEARNED = {"dreamsim": "agents.perception.similarity:dreamsim", "dino": "agents.perception.similarity:dino"}
"""Scorers of this project's checkout that need weights and torch; they are given to a world as `module:factory`."""


@runtime_checkable
class Scorer(Protocol):
    """How alike two pictures are.

    Attributes:
        name: What the score is called.
    """

    name: str

    def similarity(self, target: NDArray[np.uint8], drawing: NDArray[np.uint8]) -> float:
        """Returns how alike two pictures are, from 0 (nothing in common) to 1 (the same).

        Args:
            target: uint8[H, W, 3], what should have been drawn.
            drawing: uint8[H, W, 3], what was drawn.
        """
        ...


def resolve_scorer(what: str, scorer: object) -> Scorer:
    """Returns the scorer that an argument names.

    Args:
        what: The argument's name, for messages.
        scorer: A scorer; the name of a built-in one; or `"module:factory"`, a callable without arguments that
            returns one. Names and module paths can be sent to worker processes whatever the scorer holds.

    Returns:
        The scorer.

    Raises:
        ConfigError: If it is none of these. What a factory raises is raised as it is.
    """
    if isinstance(scorer, str):
        return _named(what, scorer)
    if not isinstance(scorer, Scorer):
        raise ConfigError(
            f"{what} must be a name, 'module:factory' or an object with a name and "
            f"similarity(target, drawing); got {scorer!r}."
        )
    return scorer


def _named(what: str, name: str) -> Scorer:
    if name in BUILT_IN:
        return BUILT_IN[name]()
    if name in LEARNED:
        raise ConfigError(
            f"The scorer {name!r} needs weights and torch, and comes with the project's checkout; "
            f"from there, write {what}={LEARNED[name]!r}."
        )
    if ":" not in name:
        known = [*BUILT_IN, *LEARNED]
        raise ConfigError(
            f"{what} must be one of {', '.join(map(repr, known))} or 'module:factory'; got {name!r}."
            f"{did_you_mean(name, known)}"
        )
    made = made_by(what, name)
    if not isinstance(made, Scorer):
        raise ConfigError(f"{what}={name!r} returned {made!r}, which has no name or no similarity(target, drawing).")
    return made
