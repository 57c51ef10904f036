"""Judged rows: which response is right is known, what is wrong with the others is not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from vlm_envs.content.judging.cases import hash_of
from vlm_envs.content.judging.datasets.reading import DataFolder, FileRow
from vlm_envs.content.judging.samples import judging_key, judging_question, response_name
from vlm_envs.qa.datasets.dataset_images import TableImage
from vlm_envs.qa.datasets.dataset_rows import BrokenRowError
from vlm_envs.qa.datasets.dataset_source import DatasetRow
from vlm_envs.qa.sample import Sample, cluster_id
from vlm_envs.responses.answers import AnswerKind
from vlm_envs.splits import split_of
from vlm_envs.tools.pictures import ImageRef


@dataclass(frozen=True, kw_only=True)
class JudgedRow:
    """A request with responses.

    Attributes:
        where: File and row, for messages.
        row_id: What the data set calls it.
        track: What the request is about: one of `vlm_envs.content.judging.cases.TRACKS`.
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
