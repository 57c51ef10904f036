"""Samples drawn from a seed and found again by an id that ends in the seed."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from vlm_envs.errors import ConfigError, GenerationError, LevelError
from vlm_envs.qa.sample import Sample
from vlm_envs.splits import SPLITS, split_of
from vlm_envs.validation import require_choice

_MAX_SEEDS = 1000


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
        require_choice("split", split, SPLITS)
        for _ in range(_MAX_SEEDS):
            seed = int(rng.integers(2**63))
            if split_of(self.digest(seed).encode()) == split:
                return self.sample(seed)
        raise GenerationError(f"No sample of {self.name} of split {split!r} was found among {_MAX_SEEDS} seeds.")

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


class Asked(Protocol):
    """Something that is shown, and a question about it."""

    @property
    def digest(self) -> str:
        """Hash of all of it."""

    def sample(self, sample_id: str) -> Sample:
        """Returns it as a sample."""


class NamedSource(Protocol):
    """A source whose arguments are part of every id, with the seed behind them."""

    @property
    def name(self) -> str:
        """What its samples are called."""

    def sample_id(self, seed: int) -> str:
        """Returns the id of the sample of a seed."""


_Source = TypeVar("_Source", bound=NamedSource)


def draw_sample(
    source: _Source,
    ask: Callable[[_Source, int], Asked | None],
    rng: np.random.Generator,
    split: str,
    *,
    remedy: str,
) -> Sample:
    """Returns a sample of a split, to which it belongs by a hash of its content.

    Args:
        source: Gives it its id.
        ask: Returns what a seed asks; None where nothing was found for what it wants.
        rng: The only source of chance.
        split: `"train"`, `"val"` or `"test"`.
        remedy: What to do where none is found.

    Raises:
        GenerationError: If no sample of the split was found, which no settings are known to lead to.
    """
    require_choice("split", split, SPLITS)
    for _ in range(_MAX_SEEDS):
        seed = int(rng.integers(2**63))
        asked = ask(source, seed)
        if asked is not None and split_of(asked.digest.encode()) == split:
            return asked.sample(source.sample_id(seed))
    raise GenerationError(
        f"No {source.name} of split {split!r} was found among {_MAX_SEEDS} seeds, the last of them "
        f"{source.sample_id(seed)}. {remedy}"
    )


def find_asked(
    sample_id: str,
    pattern: re.Pattern[str],
    make: Callable[[tuple[str, ...]], _Source],
    ask: Callable[[_Source, int], Asked | None],
    *,
    what: str,
    example: str,
) -> Asked:
    """Returns what an id asks, whichever source gave it.

    Args:
        sample_id: The id.
        pattern: Of such ids; its last group is the seed.
        make: Returns the source of the groups before that.
        ask: As of `draw_sample`.
        what: What the ids are of, for messages.
        example: One of them.

    Raises:
        LevelError: If it is none that a source gives.
    """
    match = pattern.fullmatch(sample_id) if isinstance(sample_id, str) else None
    if match is None:
        raise LevelError(f"Ids of {what}s look like {example}; got {str(sample_id)[:120]!r}.")
    *arguments, told = match.groups()
    try:
        source = make(tuple(arguments))
    except ConfigError as error:
        raise LevelError(f"{sample_id[:200]!r} is no id of a {what}: {error}") from error
    seed = int(told)
    if seed >= 2**63 or source.sample_id(seed) != sample_id:
        raise LevelError(f"Ids of {what}s look like {example}, numbers without leading zeros; got {sample_id[:200]!r}.")
    asked = ask(source, seed)
    if asked is None:
        raise LevelError(f"No {what} comes of {sample_id!r}: its seed was never drawn. Take ids from samples.")
    return asked


def digest_of(shown: str, text: str, options: Iterable[str]) -> str:
    """Returns the hash of what is shown, by its own hash, of a question about it and of its options."""
    content = hashlib.blake2b(digest_size=16)
    for part in (shown, text, *options):
        content.update(part.encode() + b"\0")
    return content.hexdigest()
