"""Samples drawn from a seed and found again by an id that ends in the seed."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from vlm_envs.errors import GenerationError, LevelError
from vlm_envs.qa.sample import Sample
from vlm_envs.responses.answers import AnswerKey
from vlm_envs.splits import SPLITS, split_of
from vlm_envs.validation import require_choice

MadeT = TypeVar("MadeT")
_MAX_SEEDS = 1000


def draw_seed(
    rng: np.random.Generator,
    split: str,
    make: Callable[[int], MadeT | None],
    digest_of: Callable[[MadeT], str],
    name: str,
    remedy: str = "",
) -> tuple[int, MadeT]:
    """Draws seeds until what one makes belongs to a split, and returns both.

    Args:
        rng: The only source of chance.
        split: `"train"`, `"val"` or `"test"`.
        make: Returns what a seed makes; None where it makes nothing.
        digest_of: Returns what decides its split.
        name: What samples are called, for the error.
        remedy: What to do where none is found.

    Raises:
        GenerationError: If no seed was found, which chance does not lead to.
    """
    require_choice("split", split, SPLITS)
    for _ in range(_MAX_SEEDS):
        seed = int(rng.integers(2**63))
        made = make(seed)
        if made is not None and split_of(digest_of(made).encode()) == split:
            return seed, made
    raise GenerationError(f"No {name} of split {split!r} was found among {_MAX_SEEDS} seeds. {remedy}".rstrip())


def exact(question: str, *answers: str) -> AnswerKey:
    """Returns the key of an answer that is compared as a text."""
    return AnswerKey(kind="exact", answers=answers, question=question)


@dataclass(frozen=True)
class SeededSource:
    """A source whose samples are made from seeds, and named by them: `dots:123`.

    Attributes:
        name: What ids begin with.
        digest: Returns what the sample of a seed is told from others by, without its pictures.
        sample: Returns the sample of a seed, whose id is `name:seed`.
    """

    name: str
    digest: Callable[[int], str]
    sample: Callable[[int], Sample]

    def draw(self, rng: np.random.Generator, split: str) -> Sample:
        """Returns a sample of a split, to which it belongs by a hash of its content.

        Args:
            rng: The only source of chance.
            split: `"train"`, `"val"` or `"test"`.
        """
        seed, _ = draw_seed(rng, split, self.digest, str, self.name)
        return self.sample(seed)

    def find(self, sample_id: str) -> Sample:
        """Returns the sample of an id.

        Raises:
            LevelError: If the id is none of this source.
        """
        return self.sample(self._seed(sample_id))

    def split_of(self, sample_id: str) -> str:
        """Returns the split of the sample of an id; raises as `find`."""
        return split_of(self.digest(self._seed(sample_id)).encode())

    def _seed(self, sample_id: str) -> int:
        match = re.fullmatch(rf"{self.name}:(\d{{1,19}})", sample_id, flags=re.ASCII)
        if match is None:
            raise LevelError(f"Expected an id of {self.name}, such as {self.name}:123; got {sample_id[:80]!r}.")
        return int(match[1])
