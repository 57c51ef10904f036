"""A source of judged rows: which response is right is known, what is wrong with the others is not."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vlm_envs.content.judging.datasets.reading import DataFolder, StoredPicture
from vlm_envs.content.judging.samples import judging_key, judging_question, response_name
from vlm_envs.errors import GenerationError, LevelError, require_choice
from vlm_envs.qa.datasets.splitting import remedy_of
from vlm_envs.qa.sample import Sample
from vlm_envs.splits import SPLITS, split_of


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
    image: str | StoredPicture = ""
    document: str = ""
    pages: tuple[str, ...] = ()
    evidence_pages: tuple[int, ...] = ()

    @property
    def key(self) -> str:
        """Hash of everything a row says, pictures and documents by their names: an id tells by it whose it is.

        No file is read for it, so that a large data set can be listed.
        """
        parts = (self.request, *sorted(self.responses), self._image_name, self.document, *self.pages)
        return _hash(*parts)

    @property
    def _image_name(self) -> str:
        return self.image.digest if isinstance(self.image, StoredPicture) else self.image

    @property
    def split(self) -> str:
        """The split that the row's picture or document belongs to; without one, the row itself."""
        return split_of((self._image_name or self.document or self.key).encode("utf-8", "surrogatepass"))


class JudgedRows:
    """The rows of a data set as samples.

    Candidates stand in an order that follows from the row, so that no place is right more often because of how a file
    was written.

    Args:
        data: Where pictures and documents are.
        rows: The rows.
        reverse_order: Whether the candidates come in the opposite order.
        is_benchmark: Whether all rows are in the split `test`.
    """

    def __init__(
        self, *, data: DataFolder, rows: Sequence[JudgedRow], reverse_order: bool = False, is_benchmark: bool = False
    ) -> None:
        self._data = data
        self._rows = tuple(rows)
        self._order = "reverse" if reverse_order else "forward"
        self._is_benchmark = is_benchmark
        indices = range(len(self._rows))
        self._of_split = {
            split: [index for index in indices if ("test" if is_benchmark else self._rows[index].split) == split]
            for split in SPLITS
        }

    @property
    def name(self) -> str:
        """What begins the ids of its samples."""
        return self._data.name

    def __len__(self) -> int:
        return len(self._rows)

    def ids(self, split: str) -> tuple[str, ...]:
        """Returns the ids of a split's samples, in the file's order; an evaluation goes through all."""
        return tuple(self._id(index) for index in self._of_split[require_choice("split", split, SPLITS)])

    def num_samples(self, split: str) -> int:
        """Returns how many samples a split has."""
        return len(self._of_split[require_choice("split", split, SPLITS)])

    def sample_at(self, index: int, split: str) -> Sample:
        """Returns a sample of a split by its place in the file, from 0.

        Raises:
            ConfigError: If its picture or document cannot be read.
        """
        return self._sample(self._of_split[require_choice("split", split, SPLITS)][index], self._order)

    def draw(self, rng: np.random.Generator, split: str) -> Sample:
        """Returns a sample of a split, each with the same chance.

        Raises:
            GenerationError: If the split has none.
            ConfigError: If its picture or document cannot be read.
        """
        indices = self._of_split[require_choice("split", split, SPLITS)]
        if not indices:
            filled = ", ".join(f"{name} {len(found)}" for name, found in self._of_split.items())
            raise GenerationError(
                f"The {self.name} data set has no row of split {split!r} ({filled}). "
                + remedy_of(self.name, self._is_benchmark)
            )
        return self._sample(indices[int(rng.integers(len(indices)))], self._order)

    def find(self, sample_id: str) -> Sample:
        """Returns the sample of an id.

        Raises:
            LevelError: If it is not one of this source's.
            ConfigError: If its picture or document cannot be read.
        """
        match = re.fullmatch(rf"{self.name}:(forward|reverse):([1-9][0-9]{{0,8}}):([0-9a-f]{{8}})", sample_id)
        index = int(match[2]) - 1 if match else -1
        if not match or index >= len(self._rows) or self._rows[index].key[:8] != match[3]:
            example = self._id(0) if self._rows else f"{self.name}:forward:1:0123abcd"
            files = ", ".join(self._data.files[:3])
            raise LevelError(f"{sample_id[:80]!r} is no row of {files}. An id is such as {example!r}.")
        return self._sample(index, match[1])

    def _id(self, index: int) -> str:
        return f"{self.name}:{self._order}:{index + 1}:{self._rows[index].key[:8]}"

    def _sample(self, index: int, order: str) -> Sample:
        row = self._rows[index]
        images = (self._data.picture(row.image, row.where),) if row.image else ()
        document = self._data.document(row.document, row.pages, row.where) if row.document else None
        about = [each.digest for each in (*images, document) if each is not None]
        digest = _hash(row.request, *sorted(row.responses), *about)
        shown = sorted(range(len(row.responses)), key=lambda place: _hash(digest, str(place)))
        if order == "reverse":
            shown.reverse()
        question = judging_question(row.track, row.request, len(shown), is_shown=bool(about))
        return Sample(
            sample_id=f"{self.name}:{order}:{index + 1}:{row.key[:8]}",
            question=question,
            key=judging_key(question, None if row.right is None else shown.index(row.right), len(shown)),
            category=row.category,
            digest=digest,
            images=images,
            document=document,
            texts=tuple((response_name(place), row.responses[which]) for place, which in enumerate(shown)),
            evidence_pages=row.evidence_pages,
        )


def _hash(*parts: str) -> str:
    """Returns a hash of texts, 32 hexadecimal digits, the same on every machine."""
    content = hashlib.blake2b(digest_size=16)
    for part in parts:
        content.update(hashlib.blake2b(part.encode("utf-8", "surrogatepass"), digest_size=16).digest())
    return content.hexdigest()
