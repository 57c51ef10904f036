"""Rows of a data file of judged responses, with errors that name file and row."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from vlm_envs.content.judging.judging_cases import hash_of, judging_key, judging_question, response_name
from vlm_envs.errors import ConfigError
from vlm_envs.qa.datasets.dataset_images import TableImage, base64_bytes, with_table_images
from vlm_envs.qa.datasets.dataset_rows import BrokenRowError, each_row, table_rows
from vlm_envs.qa.datasets.dataset_source import DatasetRow
from vlm_envs.qa.sample import Sample, cluster_id
from vlm_envs.responses.answers import AnswerKind
from vlm_envs.splits import split_of
from vlm_envs.tools.data_files import FileRoot, decode_image, with_plain_extension
from vlm_envs.tools.pdf_documents import Document, PdfDocument, PictureDocument
from vlm_envs.tools.pictures import ImageRef, Picture
from vlm_envs.tools.tool_errors import ToolError, quoted

ValueT = TypeVar("ValueT")


@dataclass(frozen=True)
class FileRow:
    """One row of a file.

    Attributes:
        where: Its file and place in it, for messages.
        number: Counted from 1.
        values: Its fields.
    """

    where: str
    number: int
    values: Mapping[str, Any]

    def broken(self, reason: str) -> BrokenRowError:
        """Returns the error that says what is wrong with this row."""
        return BrokenRowError(f"{self.where}: {reason} Correct the row or remove it.")

    def get(self, field: str, kind: type[ValueT] | tuple[type[ValueT], ...]) -> ValueT:
        """Returns a field.

        Args:
            field: Its name.
            kind: What it must be.

        Raises:
            ConfigError: If it is missing or of another type.
        """
        value = self.values.get(field)
        if field not in self.values:
            raise self.broken(f"the field {field!r} is missing; there are {', '.join(sorted(self.values)) or 'none'}.")
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            names = " or ".join(each.__name__ for each in kinds)
            raise self.broken(f"{field!r} must be of type {names}; got {quoted(value)}.")
        return value

    def text(self, field: str) -> str:
        """Returns a field that is a text with something in it.

        Raises:
            ConfigError: If it is missing, blank or no text.
        """
        value = self.get(field, str)
        if not value.strip():
            raise self.broken(f"{field!r} is blank.")
        return value

    def texts(self, field: str, counts: Sequence[int]) -> tuple[str, ...]:
        """Returns a field that is a list of texts.

        Args:
            field: Its name.
            counts: How many texts there may be.

        Raises:
            ConfigError: If it is anything else.
        """
        values = self.get(field, list)
        wanted = " or ".join(map(str, counts))
        if len(values) not in counts or not all(isinstance(value, str) and value.strip() for value in values):
            raise self.broken(f"{field!r} must be a list of {wanted} texts; got {quoted(values)}.")
        return tuple(values)

    def distinct(self, responses: tuple[str, ...], right: int | None = None) -> tuple[str, ...]:
        """Returns responses of which no two are equal but for white space at their ends.

        Args:
            responses: The responses.
            right: Index of the right one, if it alone has to differ from the others; None for all.

        Raises:
            ConfigError: If they are.
        """
        for one, other in itertools.combinations(range(len(responses)), 2):
            if responses[one].strip() == responses[other].strip() and right in (None, one, other):
                raise self.broken(
                    f"responses {one + 1} and {other + 1} are equal, so neither is the only right one; drop the row."
                )
        return responses


class DataFolder:
    """A user's copy of a data set.

    Args:
        folder: Where it is.
        name: The data set's name, and that of its file without the ending.
        published: Patterns of the files it is published in, such as `data/test-*.parquet`, which are read where there
            is none of its name: the first that any file fits, of several parted by spaces all that fit one of them.

    Raises:
        ConfigError: If there is no such folder, or no such file in it.
    """

    def __init__(self, folder: str | Path, name: str, published: Sequence[str] = ()) -> None:
        self.name = name
        self._root = FileRoot(folder, follows_links=True)
        patterns = (f"{name}.jsonl", f"{name}.json", f"{name}.parquet", *published)
        found = (_files_like(Path(self._root.folder), pattern) for pattern in patterns)
        self.files = next(filter(None, found), ())
        if not self.files:
            there = ", ".join(self._root.names()[:10]) or "nothing"
            raise ConfigError(f"{folder} has no {', '.join(patterns[:-1])} or {patterns[-1]}; it has {there}.")

    def rows(self) -> Iterator[FileRow | BrokenRowError]:
        """Yields the rows in order; pictures of tables are `TableImage`. In place of what is no object, the error.

        Raises:
            ConfigError: If a file cannot be read.
            EngineUnavailableError: If a file is parquet and pyarrow is not installed.
        """
        for file in self.files:
            if file.endswith(".parquet"):
                yield from self._table_rows(file)
            else:
                yield from each_row(self._root, file, lambda values, where, number: FileRow(where, number + 1, values))

    def _table_rows(self, file: str) -> Iterator[FileRow]:
        for number, (group, place, fields) in enumerate(table_rows(self._root, file), start=1):
            given = {name: value for name, value in fields.items() if value is not None}
            values = with_table_images(self._root, file, group, place, given)
            yield FileRow(f"{file}, row {number}", number, values)

    def picture(self, image: str | TableImage, where: str) -> Picture:
        """Returns a row's picture; as `picture_of`."""
        return picture_of(self._root, image, where)

    def document(self, name: str, pages: Sequence[str], where: str) -> Document:
        """Returns a row's document; as `document_of`."""
        return document_of(self._root, name, pages, where)


def picture_of(root: FileRoot, image: str | TableImage, where: str) -> Picture:
    """Returns a row's picture.

    Args:
        root: The folder of the row's file.
        image: A file of the folder, base64 with or without `data:image/…;base64,` before it, or in a table.
        where: File and row, for messages.

    Raises:
        BrokenRowError: If there is no such picture in the folder, or it cannot be decoded.
    """
    try:
        if isinstance(image, TableImage):
            return decode_image(image.read(), name=where)
        if is_file_name(image):
            return root.picture(image)
        return decode_image(base64_bytes(image, where), name=where)
    except (ToolError, ValueError) as error:
        raise BrokenRowError(f"{where}: the picture cannot be read: {error}") from error


def document_of(root: FileRoot, name: str, pages: Sequence[str], where: str) -> Document:
    """Returns a row's document: a PDF of the folder, or pictures of its pages.

    Raises:
        BrokenRowError: If it cannot be read.
    """
    try:
        if pages:
            return PictureDocument(name, tuple(root.picture(page) for page in pages))
        return PdfDocument(name, root.read(name))
    except ToolError as error:
        raise BrokenRowError(f"{where}: the document cannot be read: {error}") from error


def is_file_name(image: str) -> bool:
    """Returns whether an `image` names a file and is none itself: names have an ending, base64 has no dot."""
    return "." in image and not image.startswith("data:")


def _files_like(folder: Path, patterns: str) -> tuple[str, ...]:
    """Returns the files of a folder that fit one of several patterns, relative to it, in order."""
    found: dict[str, None] = {}
    for pattern in map(PurePosixPath, patterns.split()):
        for path in sorted((folder / pattern.parent).glob("*")):
            name = with_plain_extension(path.name)
            if fnmatchcase(name, pattern.name) and path.is_file():
                found[(pattern.parent / name).as_posix()] = None
    return tuple(found)


@dataclass(frozen=True, kw_only=True)
class JudgedRow:
    """A request with responses.

    Attributes:
        where: File and row, for messages.
        row_id: What the data set calls it.
        track: What the request is about: one of `vlm_envs.content.judging.judging_cases.TRACKS`.
        category: Kind of question, for evaluations.
        request: What the responses respond to.
        responses: 1, 2 or 4, in the file's order.
        right: Index of the right one, None for a single wrong one.
        image: The picture: a file, base64, or in a table; empty for none.
        document: Name of the document; empty for none.
        pages: Pictures of its pages; empty for a PDF.
        evidence_pages: Pages that hold the answer, counted from 1.
    """

    where: str
    row_id: str
    track: str
    category: str
    request: str
    responses: tuple[str, ...]
    right: int | None
    image: str | TableImage = ""
    document: str = ""
    pages: tuple[str, ...] = ()
    evidence_pages: tuple[int, ...] = ()

    @property
    def key(self) -> str:
        """Hash of everything a row says, pictures and documents by their names: an id tells by it whose it is.

        No file is read for it, so that a large data set can be listed.
        """
        return hash_of(self.request, *sorted(self.responses), self._image_name, self.document, *self.pages)

    @property
    def _image_name(self) -> str:
        return self.image.digest if isinstance(self.image, TableImage) else self.image

    def cluster(self, images: Sequence[ImageRef]) -> str:
        """Returns what it shares with other rows: its picture or document, or else its request.

        Args:
            images: Its picture, if it has one: the same one may have several names.
        """
        if self.document:
            return cluster_id("document", self.document)
        return cluster_id("image", images[0].digest) if images else cluster_id("request", self.request)

    @property
    def split(self) -> str:
        """The split that the row's picture or document belongs to; without one, the row itself."""
        return split_of((self._image_name or self.document or self.key).encode("utf-8", "surrogatepass"))


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownRow(DatasetRow):
    """A judged row in one of two orders of its candidates.

    The order follows from the row, so that no place is right more often because of how a file was written.

    Attributes:
        judged: The row.
        data: Where its picture and its document are.
        is_reversed: Whether the candidates come in the opposite order.
    """

    judged: JudgedRow
    data: DataFolder
    is_reversed: bool

    @property
    def answer_kind(self) -> AnswerKind:
        """How answers are compared."""
        return "verdict"

    def sample(self, sample_id: str) -> Sample:
        """Returns the row as a sample; its picture and its document are read."""
        row = self.judged
        images = (self.data.picture(row.image, row.where),) if row.image else ()
        document = self.data.document(row.document, row.pages, row.where) if row.document else None
        about = [each.digest for each in (*images, document) if each is not None]
        digest = hash_of(row.request, *sorted(row.responses), *about)
        shown = sorted(
            range(len(row.responses)), key=lambda place: hash_of(digest, str(place)), reverse=self.is_reversed
        )
        question = judging_question(row.track, row.request, len(shown), is_shown=bool(about))
        return Sample(
            sample_id=sample_id,
            question=question,
            key=judging_key(question, None if row.right is None else shown.index(row.right), len(shown)),
            category=row.category,
            digest=digest,
            cluster=row.cluster(images),
            images=images,
            document=document,
            texts=tuple((response_name(place), row.responses[which]) for place, which in enumerate(shown)),
            evidence_pages=row.evidence_pages,
        )


def judged_each(
    rows: Iterable[FileRow | BrokenRowError], read: Callable[[FileRow], JudgedRow | None]
) -> Iterator[JudgedRow | BrokenRowError]:
    """Yields what is made of each row, and in place of a broken one what is wrong with it.

    Args:
        rows: Of a file, with what is wrong with those that are none.
        read: Makes something of a row; None leaves it out.
    """
    for row in rows:
        if isinstance(row, BrokenRowError):
            yield row
            continue
        try:
            judged = read(row)
        except BrokenRowError as error:
            yield error
            continue
        if judged is not None:
            yield judged


def shown_rows(
    data: DataFolder, rows: Sequence[JudgedRow | BrokenRowError], *, whole_split: str | None, is_reversed: bool
) -> Iterator[ShownRow | BrokenRowError]:
    """Yields rows with their candidates in an order, which their keys tell, and what is wrong with broken ones."""
    order = "reverse" if is_reversed else "forward"
    for number, row in enumerate(rows, start=1):
        if isinstance(row, BrokenRowError):
            yield row
            continue
        yield ShownRow(
            key=f"{order}:{number}:{row.key[:8]}",
            where=row.where,
            split=whole_split or row.split,
            judged=row,
            data=data,
            is_reversed=is_reversed,
        )
