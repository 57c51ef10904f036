"""Sources that make samples from seeds and find them again by ids that end in the seed."""

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
    """Draws seeds until one makes something that belongs to a split; returns the seed and what it made.

    Args:
        rng: The only source of randomness.
        split: `"train"`, `"val"` or `"test"`.
        make: Makes something from a seed; None if the seed is unusable.
        digest_of: Returns the content that decides the split.
        name: Name of the samples, for the error.
        remedy: Suggestion for the error.

    Raises:
        GenerationError: If no seed was found, which does not happen by chance.
    """
    require_choice("split", split, SPLITS)
    for _ in range(_MAX_SEEDS):
        seed = int(rng.integers(2**63))
        made = make(seed)
        if made is not None and split_of(digest_of(made).encode()) == split:
            return seed, made
    raise GenerationError(f"No {name} of split {split!r} was found among {_MAX_SEEDS} seeds. {remedy}".rstrip())


def exact(question: str, *answers: str) -> AnswerKey:
    """Returns an answer key that compares answers as text."""
    return AnswerKey(kind="exact", answers=answers, question=question)


@dataclass(frozen=True)
class SeededSource:
    """A source that makes samples from seeds and names them by seed: `dots:123`.

    Attributes:
        name: Prefix of the ids.
        digest: Returns text that identifies the content of a seed's sample, without drawing its images.
        sample: Makes the sample of a seed, with the id `name:seed`.
    """

    name: str
    digest: Callable[[int], str]
    sample: Callable[[int], Sample]

    def draw(self, rng: np.random.Generator, split: str) -> Sample:
        """Returns a sample of a split; a hash of its content decides the split.

        Args:
            rng: The only source of randomness.
            split: `"train"`, `"val"` or `"test"`.
        """
        seed, _ = draw_seed(rng, split, self.digest, str, self.name)
        return self.sample(seed)

    def find(self, sample_id: str) -> Sample:
        """Returns the sample with an id.

        Raises:
            LevelError: If the id does not belong to this source.
        """
        return self.sample(self._seed(sample_id))

    def split_of(self, sample_id: str) -> str:
        """Returns the split of the sample with an id; raises as `find`."""
        return split_of(self.digest(self._seed(sample_id)).encode())

    def _seed(self, sample_id: str) -> int:
        match = re.fullmatch(rf"{self.name}:(\d{{1,19}})", sample_id, flags=re.ASCII)
        if match is None:
            raise LevelError(f"Expected an id such as {self.name}:123; got {sample_id[:80]!r}.")
        return int(match[1])
