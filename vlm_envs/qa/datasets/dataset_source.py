"""What all datasets share: opening a copy, rows by split, drawing and finding them by id, and rows about images."""

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
"""Rows drawn for one sample, where those that cannot be shown are left out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetRow(ABC):
    """One question of a data set, before its picture or document is read.

    Attributes:
        key: What tells it from the others of its data set; one line of text, part of its sample's id.
        where: Its file and place, for messages.
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
            ConfigError: If its picture or document cannot be read; it names file and row.
        """


@dataclass(frozen=True, kw_only=True, slots=True)
class AnsweredRow(DatasetRow):
    """One question with its answer.

    Attributes:
        answer: The key; it knows the question.
        category: Kind of question, lower case with underscores.
    """

    answer: AnswerKey
    category: str

    @property
    def answer_kind(self) -> AnswerKind:
        """How answers are compared."""
        return self.answer.kind

    def sample_of(self, sample_id: str, **shown: Any) -> Sample:
        """Returns the question as a sample of what is shown, the other fields of `Sample`."""
        answer = self.answer
        return Sample(sample_id=sample_id, question=answer.question, key=answer, category=self.category, **shown)

    def digest_with(self, images: Iterable[StoredImageRef]) -> str:
        """Returns a hash of images, question, and options."""
        content = hashlib.blake2b(digest_size=16)
        for part in (*(image.digest for image in images), self.answer.question, *self.answer.options):
            content.update(part.encode("utf-8", "surrogatepass") + b"\0")
        return content.hexdigest()


class DatasetSource:
    """Samples of a user's copy of a data set.

    Every row is read once when the source is made, so that a broken one is found then; pictures and documents are read
    when samples are drawn.

    Broken rows are left out, counted and named in a warning, and so is one whose picture or document turns out to be
    unreadable, or cut off in the middle, when it is drawn or its turn comes in a list; another is shown in its place.

    Args:
        name: What ids begin with.
        rows: The rows, in the order of the files, or what is wrong with one.
        unlisted: Rows that are found by other keys, too, but neither drawn nor listed under them.
        is_benchmark: Whether all of it is `test`, for messages; None where its files say what is in which split.
        train_on_all: Whether all of it is `train`, for messages.

    Raises:
        ConfigError: If there are no rows, or all that are there are left out.
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
            remedy = "" if self._broken and name in OWN else " Give the folder of a whole copy."
            raise ConfigError(f"The {name} data set holds no question.{left_out}{remedy}")
        if self._broken:
            told = f"{len(self._broken)} of {len(self._broken) + len(self._rows)} rows of {name} are left out."
            warnings.warn(f"{told} {named_first(self.broken_rows)}", stacklevel=2)
        self.answer_kinds = frozenset(row.answer_kind for row in self._rows.values())
        """How answers are compared; a semantic one needs a judge."""
        self._rows.update(unlisted)

    @property
    def name(self) -> str:
        """What begins the ids of its samples."""
        return self._name

    @property
    def broken_rows(self) -> tuple[str, ...]:
        """What is wrong with each row that is left out, with its file and place."""
        return tuple(self._broken)

    def num_samples(self, split: str) -> int:
        """Returns how many samples a split has."""
        return len(self._of(split))

    def ids(self, split: str) -> tuple[str, ...]:
        """Returns the ids of a split, in the order of the files: for evaluations of all of it."""
        return tuple(map(self._id, self._of(split)))

    def sample_at(self, index: int, split: str) -> Sample:
        """Returns a sample of a split by its place in the files, from 0.

        One that cannot be shown is named in a warning, and the next one is shown in its place: whoever goes through all
        of a split must not end with a picture that is missing. Who counts each item once leaves such an item out
        (`vlm_envs.qa.datasets.dataset_splits`).

        Raises:
            GenerationError: If none can be shown.
        """
        rows = self._of(split)
        return self._first_shown(rows[(index + step) % len(rows)] for step in range(min(len(rows), _MAX_DRAWS)))

    def draw(self, rng: np.random.Generator, split: str) -> Sample:
        """Returns a sample of a split, each as likely as another.

        Raises:
            GenerationError: If the split has none, or none that can be shown was found.
        """
        rows = self._of(split)
        if not rows:
            filled = ", ".join(f"{name} {len(found)}" for name, found in self._by_split.items())
            is_divided = bool(self._by_split["train"] or self._by_split["val"])
            raise GenerationError(
                f"The {self._name} data set has no sample of split {split!r} ({filled}). "
                + remedy_of(self._name, False if is_divided else self._is_benchmark, train_on_all=self._train_on_all)
            )
        return self._first_shown(rows[int(rng.integers(len(rows)))] for _ in range(_MAX_DRAWS))

    def _first_shown(self, rows: Iterable[DatasetRow]) -> Sample:
        """Returns the first row that can be shown as a sample, and warns of those before it, of each once."""
        num_tried = 0
        for row in rows:
            try:
                return self._sample(row)
            except BrokenRowError as error:
                num_tried += 1
                if str(error) not in self._broken:
                    self._broken[str(error)] = None
                    told = f"{error} Another one is shown in its place; {len(self._broken)} are left out by now."
                    warnings.warn(f"A row of {self._name} is left out. {told}", stacklevel=3)
        raise GenerationError(
            f"None of {num_tried} rows of the {self._name} data set that were drawn can be shown. "
            f"{named_first(self.broken_rows)} Copy its pictures again."
        )

    def find(self, sample_id: str) -> Sample:
        """Returns the sample of an id.

        Raises:
            LevelError: If the data set has none of it.
            ConfigError: As `DatasetRow.sample`.
        """
        return self._sample(self._found(sample_id))

    def split_of(self, sample_id: str) -> str:
        """Returns the split of an id, without reading its picture or document.

        Raises:
            LevelError: If the data set has none of it.
        """
        return self._found(sample_id).split

    def _found(self, sample_id: str) -> DatasetRow:
        name, _, key = sample_id.partition(":")
        row = self._rows.get(key) if name == self._name else None
        if row is None:
            example = self._id(next(iter(self._rows.values())))
            raise LevelError(f"Ids of this data set look like {example}; none of its samples has {quoted(sample_id)}.")
        return row

    def _of(self, split: str) -> Sequence[DatasetRow]:
        return self._by_split[require_choice("split", split, SPLITS)]

    def _id(self, row: DatasetRow) -> str:
        return f"{self._name}:{row.key}"

    def _sample(self, row: DatasetRow) -> Sample:
        """Returns a row as a sample, whose pictures are decoded, as they are shown next; raises as `DatasetRow.sample`.

        Headers are whole in files that were cut off while they were copied.
        """
        sample = row.sample(self._id(row))
        try:
            for image in sample.images:
                image.picture()
        except ToolError as error:
            raise BrokenRowError(f"{row.where}: {error}") from error
        return sample


def _snapshot_hint(dataset: Dataset, root: FileRoot) -> str:
    """Returns a sentence with the folder to give if `root` is one of the Hugging Face hub's cache."""
    snapshots = Path(root.folder, "snapshots").glob("*/")
    found = [path for path in sorted(snapshots) if dataset.files(FileRoot(path, follows_links=True))]
    return f" This is a folder of a cache: give {found[-1]}." if found else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Copy:
    """A user's copy of a data set.

    Attributes:
        root: Its folder.
        files: Names of its files of questions.
        whole_split: The split that all of it is of; None where it is divided by a hash, or its files say it.
        has_boxes: Whether its rows have boxes or points, which refer to the stored pixels of its images.
    """

    root: FileRoot
    files: Sequence[str]
    whole_split: str | None
    has_boxes: bool = False

    def split_by(self, content: str) -> str:
        """Returns the split of what has some content, such as an image: that of the copy, where it is whole."""
        return self.whole_split or content_split(content)

    def has(self, name: str) -> bool:
        """Returns whether there is a file of a name that may be read."""
        return self.root.has(name)

    def image(self, name: str) -> StoredImage:
        """Returns where an image file of the copy is."""
        return StoredImage(folder=self.root.folder, name=name, upright=not self.has_boxes)


Rows = Iterable[DatasetRow | BrokenRowError]


@dataclass(frozen=True, kw_only=True, slots=True)
class Dataset:
    """How a data set is read.

    Attributes:
        expected: What its folder holds, for messages.
        files: Finds the files of questions in a folder.
        rows: Reads the rows of a copy, with what is wrong in place of a broken one.
        is_benchmark: Whether it was published to measure with, so that all of it is `test`, or is divided by a hash of
            its content; None where its files are the splits.
        has_boxes: Whether its rows have boxes or points, so that its images are shown as they are stored.
        settings: What its rows depend on beside the copy.
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
    """Returns what reads the rows of all files of a copy.

    Args:
        read: Makes a question of a row; None leaves it out.
        under: Key of the list of rows, where files hold objects around it.
        columns: Those that are read, where others are to be reported.
        other_names: What other datasets call some of these columns.
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
    """Returns the samples of a user's copy of a data set, which worlds of one process share.

    Args:
        datasets: Those there are, by name.
        name: One of them.
        folder: Where the copy lies.
        is_benchmark: Whether all of it is `test`; False divides it by a hash of its content, so that one can train on
            it. None for what it was published as.
        train_on_all: Whether all of it is `train`: nothing is held out for evaluations, which are of another data set.

    Raises:
        ConfigError: If there is no such data set, or the folder holds none with a row that is whole; if `is_benchmark`
            or `train_on_all` is given for one with splits of its own, or both are.
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
            raise ConfigError(f"{folder} holds no questions of {name}. Expected {dataset.expected}.{hint}")
        copy = Copy(root=root, files=files, whole_split=whole, has_boxes=dataset.has_boxes)
        return DatasetSource(name, dataset.rows(copy), is_benchmark=is_benchmark, train_on_all=train_on_all)

    return shared(name, folder, load, whole, *dataset.settings)


@dataclass(frozen=True, kw_only=True, slots=True)
class PictureRow(AnsweredRow):
    """One question about a picture.

    Attributes:
        images: Where its image may be; the first that exists is it.
        boxes: What it is about in the image.
        points: The same where only points of it are known.
        facts: True sentences, where the data set has some.
    """

    images: tuple[StoredImage | TableImage, ...]
    boxes: tuple[LabelledBox, ...] = ()
    points: tuple[LabelledPoint, ...] = ()
    facts: str = ""

    def sample(self, sample_id: str) -> Sample:
        """Returns the row as a sample; its image's header is read."""
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
        """Returns the image, from the first of its places that has one."""
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
    """Returns boxes as evidence, cut to the picture; those that lie outside it are left out. Points are unknown."""
    space = OriginalPixels(shown.width, shown.height)
    found = []
    for label, (x1, y1, x2, y2) in boxes:
        left, right = max(0.0, min(x1, x2)), min(float(shown.width), max(x1, x2))
        top, bottom = max(0.0, min(y1, y2)), min(float(shown.height), max(y1, y2))
        if left < right and top < bottom:
            found.append(Evidence(label=label, box=Box(left, top, right, bottom, space)))
    return tuple(found)


def _pointed_at(points: Sequence[LabelledPoint], shown: StoredImageRef) -> tuple[Evidence, ...]:
    """Returns points as evidence without boxes; those that lie outside the picture are left out."""
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
