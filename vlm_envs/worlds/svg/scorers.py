"""What a scorer of similarity is, and how a world is told which to use."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from vlm_envs.errors import ConfigError
from vlm_envs.user_code import resolved
from vlm_envs.worlds.svg.structural import StructuralScorer

BUILT_IN = {"structural": StructuralScorer()}
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

    Raises:
        ConfigError: If it is none of these. What a factory raises is raised as it is.
    """
    if isinstance(scorer, str) and scorer in LEARNED:
        raise ConfigError(
            f"The scorer {scorer!r} needs weights and torch, and comes with the project's checkout; "
            f"from there, write {what}={LEARNED[scorer]!r}."
        )
    found: Scorer = resolved(what, scorer, "name", "similarity", known=BUILT_IN)
    return found
