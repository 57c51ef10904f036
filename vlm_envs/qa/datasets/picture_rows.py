"""Questions about one picture each."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from vlm_envs.qa.datasets.images import StoredImage, StoredImageRef, TableImage, image_ref
from vlm_envs.qa.datasets.rows import BrokenRowError, LabelledBox, LabelledPoint
from vlm_envs.qa.datasets.source import DatasetRow
from vlm_envs.qa.sample import Evidence, Sample, cluster_id
from vlm_envs.responses.answers import AnswerKey, AnswerKind
from vlm_envs.tools.coordinates import Box, OriginalPixels, Point
from vlm_envs.tools.errors import ToolError, ToolErrorKind


@dataclass(frozen=True, kw_only=True, slots=True)
class PictureRow(DatasetRow):
    """One question about a picture.

    Attributes:
        answer: The key; it knows the question.
        category: Kind of question, lower case with underscores.
        images: Where its image may be; the first that exists is it.
        boxes: What it is about in the image.
        points: The same where only points of it are known.
        facts: True sentences, where the data set has some.
    """

    answer: AnswerKey
    category: str
    images: tuple[StoredImage | TableImage, ...]
    boxes: tuple[LabelledBox, ...] = ()
    points: tuple[LabelledPoint, ...] = ()
    facts: str = ""

    @property
    def answer_kind(self) -> AnswerKind:
        """How answers are compared."""
        return self.answer.kind

    def sample(self, sample_id: str) -> Sample:
        """Returns the row as a sample; its image's header is read."""
        shown = self._shown()
        content = hashlib.blake2b(digest_size=16)
        for part in (shown.digest, self.answer.question, *self.answer.options):
            content.update(part.encode("utf-8", "surrogatepass") + b"\0")
        return Sample(
            sample_id=sample_id,
            question=self.answer.question,
            key=self.answer,
            category=self.category,
            digest=content.hexdigest(),
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
