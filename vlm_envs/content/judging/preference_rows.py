"""Rows of judged responses, and their conversion to samples with images and documents."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from vlm_envs.content.judging.judging_cases import hash_of, judging_key, judging_question, response_name
from vlm_envs.errors import ConfigError
from vlm_envs.qa.datasets.dataset_images import TableImage, base64_bytes
from vlm_envs.qa.datasets.dataset_rows import BrokenRowError, Row
from vlm_envs.qa.datasets.dataset_source import DatasetRow
from vlm_envs.qa.sample import Sample, cluster_id
from vlm_envs.responses.answers import AnswerKind
from vlm_envs.splits import split_of
from vlm_envs.tools.data_files import FileRoot, decode_image, with_plain_extension
from vlm_envs.tools.pdf_documents import Document, PdfDocument, PictureDocument
from vlm_envs.tools.pictures import ImageRef, Picture
from vlm_envs.tools.tool_errors import ToolError


def check_distinct(row: Row, responses: tuple[str, ...], right: int | None = None) -> None:
    """Rejects a row with equal responses, ignoring white space at their ends.

    Args:
        row: The row.
        responses: Its responses.
        right: Index of the right response, to require only that it differs from the others; None to compare
            all pairs.
    """
    for one, other in itertools.combinations(range(len(responses)), 2):
        if responses[one].strip() == responses[other].strip() and right in (None, one, other):
            row.fault(f"responses {one + 1} and {other + 1} are equal, so neither can be the right one; remove the row")


def files_of(root: FileRoot, name: str, published: Sequence[str] = ()) -> tuple[str, ...]:
    """Returns the row files in a local copy of a dataset.

    Args:
        root: Its folder.
        name: Name of the dataset, and of its file without the extension.
        published: Patterns of the published files, such as `data/test-*.parquet`, tried in order if no file
            has that name. A pattern may combine several, separated by spaces; all files that match any of
            them are used.

    Raises:
        ConfigError: If no file matches.
    """
    patterns = (f"{name}.jsonl", f"{name}.json", f"{name}.parquet", *published)
    found = next(filter(None, (_files_like(Path(root.folder), pattern) for pattern in patterns)), ())
    if not found:
        there = ", ".join(root.names()[:10]) or "nothing"
        raise ConfigError(f"{root.folder} has no {', '.join(patterns[:-1])} or {patterns[-1]}; it has {there}.")
    return found


def picture_of(root: FileRoot, image: str | TableImage, where: str) -> Picture:
    """Returns the image of a row.

    Args:
        root: The folder of the row's file.
        image: A file in the folder, base64 with or without a `data:image/…;base64,` prefix, or an image in a
            table.
        where: File and row, for messages.

    Raises:
        BrokenRowError: If the image is missing or cannot be decoded.
    """
    try:
        if isinstance(image, TableImage):
            return decode_image(image.read(), name=where)
        if is_file_name(image):
            return root.picture(image)
        return decode_image(base64_bytes(image, where), name=where)
    except (ToolError, ValueError) as error:
        raise BrokenRowError(f"{where}: cannot read the image: {error}") from error


def document_of(root: FileRoot, name: str, pages: Sequence[str], where: str) -> Document:
    """Returns the document of a row: a PDF in the folder, or images of its pages.

    Raises:
        BrokenRowError: If it cannot be read.
    """
    try:
        if pages:
            return PictureDocument(name, tuple(root.picture(page) for page in pages))
        return PdfDocument(name, root.read(name))
    except ToolError as error:
        raise BrokenRowError(f"{where}: cannot read the document: {error}") from error


def is_file_name(image: str) -> bool:
    """Returns whether an `image` is a file name rather than base64, which has no dot."""
    return "." in image and not image.startswith("data:")


def _files_like(folder: Path, patterns: str) -> tuple[str, ...]:
    """Returns the files of a folder that match any of several patterns, relative to it, in order."""
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
        track: One of `vlm_envs.content.judging.judging_cases.TRACKS`.
        category: Kind of question, for evaluations.
        request: The request that the responses answer.
        responses: 1, 2 or 4, in file order.
        right: Index of the right one; None for a single wrong one.
        image: The image: a file, base64, or part of a table; empty for none.
        document: Name of the document; empty for none.
        pages: Images of its pages; empty for a PDF.
        evidence_pages: Pages that contain the answer, counted from 1.
    """

    where: str
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
        """Hash of the row's texts and the names of its image and document; part of its id.

        No file is read, so that a large dataset can be listed.
        """
        return hash_of(self.request, *sorted(self.responses), self._image_name, self.document, *self.pages)

    @property
    def _image_name(self) -> str:
        return self.image.digest if isinstance(self.image, TableImage) else self.image

    def cluster(self, images: Sequence[ImageRef]) -> str:
        """Returns the cluster of the row: its image or document, or else its request.

        Args:
            images: Its image, if any; rows may name the same image differently.
        """
        if self.document:
            return cluster_id("document", self.document)
        return cluster_id("image", images[0].digest) if images else cluster_id("request", self.request)

    @property
    def split(self) -> str:
        """The split, decided by the row's image or document, or by the row itself if it has neither."""
        return split_of((self._image_name or self.document or self.key).encode("utf-8", "surrogatepass"))


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownRow(DatasetRow):
    """A judged row with an order of its candidates.

    The order is derived from the row's content, so that no position is favored by how a file was written.

    Attributes:
        judged: The row.
        root: Folder of its image and document.
        is_reversed: Whether candidates are shown in the opposite order.
    """

    judged: JudgedRow
    root: FileRoot
    is_reversed: bool

    @property
    def answer_kind(self) -> AnswerKind:
        """How answers are compared."""
        return "verdict"

    def sample(self, sample_id: str) -> Sample:
        """Returns the row as a sample, after reading its image and document."""
        row = self.judged
        images = (picture_of(self.root, row.image, row.where),) if row.image else ()
        document = document_of(self.root, row.document, row.pages, row.where) if row.document else None
        about = [item.digest for item in (*images, document) if item is not None]
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
            texts=tuple((response_name(position), row.responses[which]) for position, which in enumerate(shown)),
            evidence_pages=row.evidence_pages,
        )


def shown_rows(
    root: FileRoot, rows: Sequence[JudgedRow | BrokenRowError], *, whole_split: str | None, is_reversed: bool
) -> Iterator[ShownRow | BrokenRowError]:
    """Yields rows with keys that name the order of candidates, and the errors of broken rows."""
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
            root=root,
            is_reversed=is_reversed,
        )
