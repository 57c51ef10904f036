"""Shared code of all datasets: opening a copy, rows by split, drawing and finding samples, and rows about images."""

from __future__ import annotations

import hashlib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from vlm_envs.errors import ConfigError, GenerationError, LevelError
from vlm_envs.qa.datasets.dataset_images import StoredImage, StoredImageRef, TableImage, image_ref
from vlm_envs.qa.datasets.dataset_rows import (
    BrokenRowError,
    LabelledBox,
    LabelledPoint,
    Row,
    checked_columns,
    read_rows,
    rows_of,
)
from vlm_envs.qa.datasets.dataset_splits import OWN, content_split, named_first, remedy_of, shared, whole_split
from vlm_envs.qa.sample import Evidence, Sample, cluster_id
from vlm_envs.responses.answers import AnswerKey, AnswerKind
from vlm_envs.splits import SPLITS
from vlm_envs.tools.coordinates import Box, OriginalPixels, Point
from vlm_envs.tools.data_files import FileRoot
from vlm_envs.tools.tool_errors import ToolError, ToolErrorKind, quoted
from vlm_envs.validation import require_choice

_MAX_DRAWS = 100
"""Attempts to draw a row that can be shown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetRow(ABC):
    """One question of a dataset, before its image or document is read.

    Attributes:
        key: One line of text that identifies it within its dataset; part of its sample's id.
        where: Its file and position, for messages.
        split: `"train"`, `"val"` or `"test"`.
    """

    key: str
    where: str
    split: str

    @property
    @abstractmethod
    def answer_kind(self) -> AnswerKind:
        """How answers are compared."""

    @abstractmethod
    def sample(self, sample_id: str) -> Sample:
        """Returns the row as a sample.

        Raises:
            ConfigError: If its image or document cannot be read; the message names file and row.
        """


@dataclass(frozen=True, kw_only=True, slots=True)
class AnsweredRow(DatasetRow):
    """One question with its answer.

    Attributes:
        answer: The answer key, which includes the question.
        category: Kind of question, lower case with underscores.
    """

    answer: AnswerKey
    category: str

    @property
    def answer_kind(self) -> AnswerKind:
        """How answers are compared."""
        return self.answer.kind

    def sample_of(self, sample_id: str, **shown: Any) -> Sample:
        """Returns the question as a sample; `shown` contains the other fields of `Sample`."""
        answer = self.answer
        return Sample(sample_id=sample_id, question=answer.question, key=answer, category=self.category, **shown)

    def digest_with(self, images: Iterable[StoredImageRef]) -> str:
        """Returns a hash of images, question, and options."""
        content = hashlib.blake2b(digest_size=16)
        for part in (*(image.digest for image in images), self.answer.question, *self.answer.options):
            content.update(part.encode("utf-8", "surrogatepass") + b"\0")
        return content.hexdigest()


class DatasetSource:
    """Samples of a local copy of a dataset.

    All rows are read on construction, so that broken ones are found early; images and documents are read when
    samples are drawn.

    Broken rows are omitted, counted, and reported in a warning. So is a row whose image or document turns out
    to be unreadable or truncated when it is drawn; another row is shown instead.

    Args:
        name: Prefix of the ids.
        rows: The rows in file order, or the errors of broken ones.
        unlisted: Additional keys by which rows can be found, but not drawn or listed.
        is_benchmark: Whether the whole dataset is `test`, for messages; None if its files define the splits.
        train_on_all: Whether the whole dataset is `train`, for messages.

    Raises:
        ConfigError: If there are no rows, or all are broken.
    """

    def __init__(
        self,
        name: str,
        rows: Iterable[DatasetRow | BrokenRowError],
        *,
        unlisted: Mapping[str, DatasetRow] = MappingProxyType({}),
        is_benchmark: bool | None = None,
        train_on_all: bool = False,
    ) -> None:
        self._name, self._is_benchmark, self._train_on_all = name, is_benchmark, train_on_all
        self._rows: dict[str, DatasetRow] = {}
        self._by_split: dict[str, list[DatasetRow]] = {split: [] for split in SPLITS}
        self._broken: dict[str, None] = {}
        for row in rows:
            if isinstance(row, BrokenRowError):
                self._broken[str(row)] = None
            elif known := self._rows.get(row.key):
                taken = f"expected an id other than that of {known.where}; got {quoted(row.key)}"
                self._broken[f"{row.where}: {taken}. Correct the row or remove it."] = None
            else:
                self._rows[row.key] = row
                self._by_split[row.split].append(row)
        if not self._rows:
            left_out = f" {named_first(self.broken_rows)}" if self._broken else ""
            remedy = "" if self._broken and name in OWN else " Give the folder of a complete copy."
            raise ConfigError(f"The dataset {name} contains no questions.{left_out}{remedy}")
        if self._broken:
            omitted = f"Omitted {len(self._broken)} of {len(self._broken) + len(self._rows)} rows of {name}."
            warnings.warn(f"{omitted} {named_first(self.broken_rows)}", stacklevel=2)
        self.answer_kinds = frozenset(row.answer_kind for row in self._rows.values())
        """How answers are compared; `semantic` needs a judge."""
        self._rows.update(unlisted)

    @property
    def name(self) -> str:
        """Prefix of the sample ids."""
        return self._name

    @property
    def broken_rows(self) -> tuple[str, ...]:
        """The error of each omitted row, with its file and position."""
        return tuple(self._broken)

    def num_samples(self, split: str) -> int:
        """Returns the number of samples in a split."""
        return len(self._of(split))

    def ids(self, split: str) -> tuple[str, ...]:
        """Returns the ids of a split in file order, for complete evaluations."""
        return tuple(map(self._id, self._of(split)))

    def sample_at(self, index: int, split: str) -> Sample:
        """Returns a sample of a split by its index in the files.

        If it cannot be shown, a warning reports it and the next one is shown instead, so that a traversal of
        the split does not fail at a missing image. Use `vlm_envs.qa.datasets.dataset_splits` to omit such
        items where each must count once.

        Raises:
            GenerationError: If none can be shown.
        """
        rows = self._of(split)
        return self._first_shown(rows[(index + step) % len(rows)] for step in range(min(len(rows), _MAX_DRAWS)))

    def draw(self, rng: np.random.Generator, split: str) -> Sample:
        """Returns a uniformly random sample of a split.

        Raises:
            GenerationError: If the split is empty, or no sample that can be shown was found.
        """
        rows = self._of(split)
        if not rows:
            filled = ", ".join(f"{name} {len(found)}" for name, found in self._by_split.items())
            is_divided = bool(self._by_split["train"] or self._by_split["val"])
            raise GenerationError(
                f"The dataset {self._name} has no sample of split {split!r} ({filled}). "
                + remedy_of(self._name, False if is_divided else self._is_benchmark, train_on_all=self._train_on_all)
            )
        return self._first_shown(rows[int(rng.integers(len(rows)))] for _ in range(_MAX_DRAWS))

    def _first_shown(self, rows: Iterable[DatasetRow]) -> Sample:
        """Returns the first row that can be shown, as a sample; warns once about each of the others before it."""
        num_tried = 0
        for row in rows:
            try:
                return self._sample(row)
            except BrokenRowError as error:
                num_tried += 1
                if str(error) not in self._broken:
                    self._broken[str(error)] = None
                    message = f"Omitted a row of {self._name}: {error} Another one is shown instead."
                    warnings.warn(f"{message} Rows omitted so far: {len(self._broken)}.", stacklevel=3)
        raise GenerationError(
            f"None of {num_tried} rows drawn from the dataset {self._name} can be shown. "
            f"{named_first(self.broken_rows)} Copy its images again."
        )

    def find(self, sample_id: str) -> Sample:
        """Returns the sample with an id.

        Raises:
            LevelError: If the dataset has no such sample.
            ConfigError: As `DatasetRow.sample`.
        """
        return self._sample(self._found(sample_id))

    def split_of(self, sample_id: str) -> str:
        """Returns the split of an id, without reading its image or document.

        Raises:
            LevelError: If the dataset has no such sample.
        """
        return self._found(sample_id).split

    def _found(self, sample_id: str) -> DatasetRow:
        name, _, key = sample_id.partition(":")
        row = self._rows.get(key) if name == self._name else None
        if row is None:
            example = self._id(next(iter(self._rows.values())))
            raise LevelError(f"The dataset has no sample {quoted(sample_id)}; ids look like {example}.")
        return row

    def _of(self, split: str) -> Sequence[DatasetRow]:
        return self._by_split[require_choice("split", split, SPLITS)]

    def _id(self, row: DatasetRow) -> str:
        return f"{self._name}:{row.key}"

    def _sample(self, row: DatasetRow) -> Sample:
        """Returns a row as a sample with decoded images, since they are shown next; raises as `DatasetRow.sample`.

        Decoding finds truncated files, whose headers may be intact.
        """
        sample = row.sample(self._id(row))
        try:
            for image in sample.images:
                image.picture()
        except ToolError as error:
            raise BrokenRowError(f"{row.where}: {error}") from error
        return sample


def _snapshot_hint(dataset: Dataset, root: FileRoot) -> str:
    """Returns a sentence with the folder to use if `root` is a cache folder of the Hugging Face hub."""
    snapshots = Path(root.folder, "snapshots").glob("*/")
    found = [path for path in sorted(snapshots) if dataset.files(FileRoot(path, follows_links=True))]
    return f" This is a cache folder; use {found[-1]}." if found else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Copy:
    """A local copy of a dataset.

    Attributes:
        root: Its folder.
        files: Names of its question files.
        whole_split: The split of all its rows; None if a hash or the files decide the split.
        has_boxes: Whether its rows have boxes or points, which refer to the stored pixels of its images.
    """

    root: FileRoot
    files: Sequence[str]
    whole_split: str | None
    has_boxes: bool = False

    def split_by(self, content: str) -> str:
        """Returns the split of some content, such as an image; the copy's split if it has a single one."""
        return self.whole_split or content_split(content)

    def has(self, name: str) -> bool:
        """Returns whether a readable file with this name exists."""
        return self.root.has(name)

    def image(self, name: str) -> StoredImage:
        """Returns the location of an image file in the copy."""
        return StoredImage(folder=self.root.folder, name=name, upright=not self.has_boxes)


Rows = Iterable[DatasetRow | BrokenRowError]


@dataclass(frozen=True, kw_only=True, slots=True)
class Dataset:
    """How to read a dataset.

    Attributes:
        expected: Expected contents of its folder, for messages.
        files: Finds the question files in a folder.
        rows: Reads the rows of a copy, with errors in place of broken ones.
        is_benchmark: True if it was published for evaluation, so that all of it is `test`; False if it is
            split by a hash of its content; None if its files are the splits.
        has_boxes: Whether its rows have boxes or points, so that its images are shown as stored.
        settings: Everything else that its rows depend on.
    """

    expected: str
    files: Callable[[FileRoot], Sequence[str]]
    rows: Callable[[Copy], Rows]
    is_benchmark: bool | None = None
    has_boxes: bool = False
    settings: tuple[Hashable, ...] = ()


def rows_by(
    read: Callable[[Copy, Row], DatasetRow | None],
    *,
    under: str | None = None,
    columns: Sequence[str] = (),
    other_names: Mapping[str, str] = MappingProxyType({}),
) -> Callable[[Copy], Rows]:
    """Returns a function that reads the rows of all files of a copy.

    Args:
        read: Makes a question from a row, or returns None to omit it.
        under: Key of the list of rows, if files contain an object around it.
        columns: The columns that are read; others are reported.
        other_names: Names of these columns in other datasets.
    """

    def rows(copy: Copy) -> Iterator[DatasetRow | BrokenRowError]:
        for file in copy.files:
            with checked_columns(columns, other_names, file) as check:

                def checked(row: Row, check: Callable[[Row], None] = check) -> DatasetRow | None:
                    check(row)
                    return read(copy, row)

                yield from read_rows(rows_of(copy.root, file, under=under), checked)

    return rows


def opened(
    datasets: Mapping[str, Dataset],
    name: str,
    folder: str | Path,
    *,
    is_benchmark: bool | None = None,
    train_on_all: bool = False,
) -> DatasetSource:
    """Returns the samples of a local copy of a dataset, shared by the worlds of a process.

    Args:
        datasets: The available datasets, by name.
        name: Name of the dataset.
        folder: Folder of the copy.
        is_benchmark: True puts all rows into `test`; False splits them by a hash of their content, so that
            some can be used for training; None uses the dataset's default.
        train_on_all: Whether all rows are in `train`; nothing is held out, so evaluation needs another
            dataset.

    Raises:
        ConfigError: If the dataset does not exist, or the folder contains no valid row of it; if
            `is_benchmark` or `train_on_all` is given for a dataset with its own splits, or both are given.
    """
    dataset = datasets[require_choice("dataset", name, datasets)]
    whole = whole_split(name, dataset.is_benchmark, is_benchmark=is_benchmark, train_on_all=train_on_all)

    def load() -> DatasetSource:
        try:
            root = FileRoot(folder, follows_links=True)
        except ConfigError as error:
            raise ConfigError(f"{error} Expected {dataset.expected}.") from error
        files = dataset.files(root)
        if not files:
            hint = _snapshot_hint(dataset, root)
            raise ConfigError(f"{folder} contains no questions of {name}. Expected {dataset.expected}.{hint}")
        copy = Copy(root=root, files=files, whole_split=whole, has_boxes=dataset.has_boxes)
        return DatasetSource(name, dataset.rows(copy), is_benchmark=is_benchmark, train_on_all=train_on_all)

    return shared(name, folder, load, whole, *dataset.settings)


@dataclass(frozen=True, kw_only=True, slots=True)
class PictureRow(AnsweredRow):
    """One question about an image.

    Attributes:
        images: Candidate locations of its image; the first that exists is used.
        boxes: Labeled boxes in the image that the question is about.
        points: The same, if only points are known.
        facts: True sentences, if the dataset has them.
    """

    images: tuple[StoredImage | TableImage, ...]
    boxes: tuple[LabelledBox, ...] = ()
    points: tuple[LabelledPoint, ...] = ()
    facts: str = ""

    def sample(self, sample_id: str) -> Sample:
        """Returns the row as a sample, after reading its image's header."""
        shown = self._shown()
        return self.sample_of(
            sample_id,
            digest=self.digest_with([shown]),
            cluster=cluster_id("image", shown.digest),
            images=(shown,),
            evidence=_evidence(self.boxes, shown) + _pointed_at(self.points, shown),
            facts=self.facts,
        )

    def _shown(self) -> StoredImageRef:
        """Returns the image at the first location that has one."""
        missing: ToolError | None = None
        for stored in self.images:
            try:
                return image_ref(stored)
            except ToolError as error:
                if error.kind is not ToolErrorKind.UNKNOWN_FILE:
                    raise BrokenRowError(f"{self.where}: {error}") from error
                missing = missing or error
        raise BrokenRowError(f"{self.where}: {missing}") from missing


def _evidence(boxes: Sequence[LabelledBox], shown: StoredImageRef) -> tuple[Evidence, ...]:
    """Returns boxes as evidence, clipped to the image; boxes outside it are omitted. Points are unknown."""
    space = OriginalPixels(shown.width, shown.height)
    found = []
    for label, (x1, y1, x2, y2) in boxes:
        left, right = max(0.0, min(x1, x2)), min(float(shown.width), max(x1, x2))
        top, bottom = max(0.0, min(y1, y2)), min(float(shown.height), max(y1, y2))
        if left < right and top < bottom:
            found.append(Evidence(label=label, box=Box(left, top, right, bottom, space)))
    return tuple(found)


def _pointed_at(points: Sequence[LabelledPoint], shown: StoredImageRef) -> tuple[Evidence, ...]:
    """Returns points as evidence without boxes; points outside the image are omitted."""
    space = OriginalPixels(shown.width, shown.height)
    return tuple(
        Evidence(
            label=label,
            box=Box(float(int(x)), float(int(y)), int(x) + 1.0, int(y) + 1.0, space),
            point=Point(x, y, space),
            has_box=False,
        )
        for label, (x, y) in points
        if 0.0 <= x < shown.width and 0.0 <= y < shown.height
    )
