"""What every data set has in common: rows by split, drawn by chance and found by id."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vlm_envs.errors import ConfigError, GenerationError, LevelError, require_choice
from vlm_envs.qa.datasets.images import StoredImageRef, image_ref
from vlm_envs.qa.datasets.rows import BrokenRowError, LabelledBox, Row
from vlm_envs.qa.datasets.splitting import remedy_of
from vlm_envs.qa.sample import Evidence, Sample
from vlm_envs.responses.answers import AnswerKind
from vlm_envs.splits import SPLITS, split_of
from vlm_envs.tools.coordinates import Box, OriginalPixels
from vlm_envs.tools.errors import ToolError, ToolErrorKind, quoted
from vlm_envs.tools.files import FileRoot


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A row that has not been built yet.

    Attributes:
        key: Of the row.
        split: It belongs to.
        build: Reads the row's fields.
    """

    key: str
    split: str
    build: Callable[[], Row]


class DatasetSource:
    """Samples of a user's copy of a data set.

    Every row is read once when the source is made, so that a broken one is found then; images are read when samples
    are drawn.

    Args:
        name: What ids begin with.
        entries: The rows.

    Raises:
        ConfigError: If a row is broken, two have one key, or there are none.
    """

    def __init__(self, name: str, entries: Iterable[Entry]) -> None:
        self._name = name
        self._entries: dict[str, Entry] = {}
        self._keys: dict[str, list[str]] = {split: [] for split in SPLITS}
        kinds: set[AnswerKind] = set()
        for entry in entries:
            row = _built(entry)
            if entry.key in self._entries:
                raise ConfigError(f"{row.where}: another row has the key {quoted(entry.key)}. Keep one of the two.")
            self._entries[entry.key] = entry
            kinds.add(row.answer.kind)
            self._keys[entry.split].append(entry.key)
        if not self._entries:
            raise ConfigError(f"The {name} data set holds no question. Give the folder of a whole copy.")
        self.answer_kinds = frozenset(kinds)
        """How answers are compared; a semantic one needs a judge."""

    @property
    def name(self) -> str:
        """What its ids begin with."""
        return self._name

    def num_samples(self, split: str) -> int:
        """Returns how many samples a split has."""
        return len(self._keys[require_choice("split", split, SPLITS)])

    def ids(self, split: str) -> tuple[str, ...]:
        """Returns the ids of a split, in the order of the files: for evaluations of all of it."""
        return tuple(f"{self._name}:{key}" for key in self._keys[require_choice("split", split, SPLITS)])

    def sample_at(self, index: int, split: str) -> Sample:
        """Returns a sample of a split by its place in the files, from 0.

        Raises:
            ConfigError: If its image is missing or broken.
        """
        return self._sample(self._entries[self._keys[require_choice("split", split, SPLITS)][index]])

    def draw(self, rng: np.random.Generator, split: str) -> Sample:
        """Returns a sample of a split, each as likely as another.

        Raises:
            GenerationError: If the split has none.
            ConfigError: If its image is missing or broken.
        """
        keys = self._keys[require_choice("split", split, SPLITS)]
        if not keys:
            filled = ", ".join(f"{name} {len(found)}" for name, found in self._keys.items())
            raise GenerationError(
                f"The {self._name} data set has no sample of split {split!r} ({filled}). "
                + remedy_of(self._name, False if self._keys["train"] or self._keys["val"] else None)
            )
        return self._sample(self._entries[keys[int(rng.integers(len(keys)))]])

    def find(self, sample_id: str) -> Sample:
        """Returns the sample of an id.

        Raises:
            LevelError: If the data set has none of it.
            ConfigError: If its image is missing or broken.
        """
        start = f"{self._name}:"
        entry = self._entries.get(sample_id.removeprefix(start)) if sample_id.startswith(start) else None
        if entry is None:
            example = f"{start}{next(iter(self._entries))}"
            raise LevelError(f"Ids of this data set look like {example}; none of its samples has {quoted(sample_id)}.")
        return self._sample(entry)

    def _sample(self, entry: Entry) -> Sample:
        row = _built(entry)
        shown = _shown(row)
        content = hashlib.blake2b(digest_size=16)
        for part in (shown.digest, row.question, *row.answer.options):
            content.update(part.encode("utf-8", "surrogatepass") + b"\0")
        return Sample(
            sample_id=f"{self._name}:{row.key}",
            question=row.question,
            key=row.answer,
            category=row.category,
            digest=content.hexdigest(),
            images=(shown,),
            evidence=_evidence(row.boxes, shown),
            facts=row.facts,
        )


def folder_root(folder: str | Path, expected: str) -> FileRoot:
    """Returns a data set's folder.

    Raises:
        ConfigError: If it is none; it says what was expected.
    """
    try:
        return FileRoot(folder)
    except ConfigError as error:
        raise ConfigError(f"{error} Expected {expected}.") from error


def benchmark_split(is_benchmark: bool, *parts: str) -> str:
    """Returns `test` for an item of a benchmark, which is whole; the split by content where it is told to be none."""
    return "test" if is_benchmark else content_split(*parts)


def content_split(*parts: str) -> str:
    """Returns the split of something named by its content, such as an image: 80 % train, 10 % val, 10 % test."""
    return split_of("\0".join(parts).encode("utf-8", "surrogatepass"))


def shuffled(key: str, count: int) -> Sequence[int]:
    """Returns an order of things that depends on a key alone."""
    seed = int.from_bytes(hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
    return [int(index) for index in np.random.default_rng(seed).permutation(count)]


def _built(entry: Entry) -> Row:
    """Returns a row; errors that do not name it are made to."""
    try:
        return entry.build()
    except BrokenRowError:
        raise
    except ConfigError as error:
        raise BrokenRowError(f"Row {quoted(entry.key)}: {error}") from error


def _shown(row: Row) -> StoredImageRef:
    """Returns a row's image, from the first of its places that has one."""
    missing: ToolError | None = None
    for stored in row.images:
        try:
            return image_ref(stored)
        except ToolError as error:
            if error.kind is not ToolErrorKind.UNKNOWN_FILE:
                raise BrokenRowError(f"{row.where}: {error}") from error
            missing = missing or error
    raise BrokenRowError(f"{row.where}: {missing}") from missing


def _evidence(boxes: Sequence[LabelledBox], shown: StoredImageRef) -> tuple[Evidence, ...]:
    """Returns boxes as evidence, cut to the picture; those that lie outside it are left out. Points are unknown."""
    space = OriginalPixels(shown.width, shown.height)
    found = []
    for label, (x1, y1, x2, y2) in boxes:
        left, right = max(0.0, min(x1, x2)), min(float(shown.width), max(x1, x2))
        top, bottom = max(0.0, min(y1, y2)), min(float(shown.height), max(y1, y2))
        if left < right and top < bottom:
            found.append(Evidence(label=label, box=Box(left, top, right, bottom, space)))
    return tuple(found)
