"""A sample: one question with its answer, and what it is about. Sources make samples and find them again by id."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from vlm_envs.errors import ConfigError
from vlm_envs.responses.answers import AnswerKey
from vlm_envs.tools.coordinates import Box, OriginalPixels, Point
from vlm_envs.tools.pdf_documents import Document
from vlm_envs.tools.pictures import ImageRef
from vlm_envs.user_code import resolved
from vlm_envs.validation import require_flag


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """One thing in a picture that the answer rests on.

    Attributes:
        label: What it is called, such as `red mug`; unambiguous in its picture.
        box: Where it is, in pixels of the original.
        point: A pixel that surely belongs to it; None where nobody knows more than the box.
        image: Index of the picture.
        has_box: Whether the box is the thing's; else nobody drew one, and it is the pixel of the point.
    """

    label: str
    box: Box[OriginalPixels]
    point: Point[OriginalPixels] | None = None
    image: int = 0
    has_box: bool = True


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One question.

    Attributes:
        sample_id: One line of text by which its source finds it again; also the level text of the worlds.
        question: What is asked, options not included.
        key: The answer, the options where it is a choice, and how answers are compared.
        category: Kind of question, for evaluations by kind; lower case with underscores.
        digest: Hash of everything a model is shown or asked; splits are disjoint by it.
        cluster: Id of the content that it shares with other questions of its dataset, such as an image or a document;
            empty if it shares none. Statistics treat questions with equal clusters as dependent.
        images: The pictures, the one the question is about first; or the frames of a video, in order.
        times_s: Of a video: when each frame is shown, in seconds; else empty.
        document: The document, where it is about one.
        texts: Named texts that belong to the question, such as the responses to be judged.
        evidence: What the answer rests on in the pictures; empty where nobody annotated it, or nothing is there.
        evidence_pages: Pages of the document that hold the answer, counted from 1.
        facts: Whole sentences that are true, without coordinates: what a careful look at the evidence tells. The
            oracle reasons with them.
    """

    sample_id: str
    question: str
    key: AnswerKey
    category: str
    digest: str
    cluster: str = ""
    images: tuple[ImageRef, ...] = ()
    times_s: tuple[float, ...] = ()
    document: Document | None = field(default=None, compare=False)
    texts: tuple[tuple[str, str], ...] = ()
    evidence: tuple[Evidence, ...] = ()
    evidence_pages: tuple[int, ...] = ()
    facts: str = ""

    @property
    def truth_digest(self) -> str:
        """Hash of what is right: how answers are compared and with which, and the evidence.

        Two data sets may show and ask the same and differ in nothing but this. Boxes count in pixels of the original,
        so that a sample is the same whatever size a world shows it in.
        """
        boxes = [(item.label, item.box.x1, item.box.y1, item.box.x2, item.box.y2, item.image) for item in self.evidence]
        key = self.key
        tolerance = () if key.tolerance is None else (key.tolerance,)
        truth = (key.kind, key.answers, key.options, boxes, self.evidence_pages, *tolerance)
        return hashlib.blake2b(json.dumps(truth, default=float).encode("ascii"), digest_size=16).hexdigest()


def cluster_id(kind: str, content: str) -> str:
    """Returns the cluster of what shares some content: its kind and a hash.

    Args:
        kind: Such as `image`.
        content: What identifies it: a name or a hash.
    """
    return f"{kind}-{hashlib.blake2b(content.encode('utf-8', 'surrogatepass'), digest_size=8).hexdigest()}"


class SampleSource(Protocol):
    """Where samples come from: a generator, or a user's copy of a data set."""

    @property
    def name(self) -> str:
        """What begins the ids of its samples."""
        ...

    def draw(self, rng: np.random.Generator, split: str) -> Sample:
        """Returns a sample of a split.

        Args:
            rng: The only source of chance.
            split: `"train"`, `"val"` or `"test"`; no content is in two of them.

        Raises:
            GenerationError: If there is no sample of the split.
        """
        ...

    def find(self, sample_id: str) -> Sample:
        """Returns the sample of an id that this source gave.

        Raises:
            LevelError: If the id is not one of this source's; it says what ids look like.
        """
        ...


@runtime_checkable
class DividedSource(SampleSource, Protocol):
    """A source that can tell which split an id belongs to."""

    def split_of(self, sample_id: str) -> str | None:
        """Returns the split of the sample of an id, without reading pictures or documents where they are stored.

        Raises:
            LevelError: If the id is not one of this source's.
        """
        ...


@runtime_checkable
class ListedSource(SampleSource, Protocol):
    """A source whose samples are listed: its val and test splits are gone through in order, each sample once."""

    def num_samples(self, split: str) -> int:
        """Returns how many samples a split has."""
        ...

    def sample_at(self, index: int, split: str) -> Sample:
        """Returns a sample of a split by its place, from 0, in the order of the files."""
        ...


OpenDataset = Callable[..., SampleSource]
"""Opens a user's copy of a data set: its name, the folder, `is_benchmark` and `train_on_all`, as `QAWorld` has them."""


def chosen_source(
    generated: SampleSource | None,
    open_dataset: OpenDataset | None,
    *,
    source: str | SampleSource | None,
    dataset: str | None,
    folder: str | None,
    is_benchmark: bool | None,
    train_on_all: bool = False,
) -> SampleSource:
    """Returns the source that a world's arguments name; they are those of `vlm_envs.qa.qa_world.QAWorld`.

    Raises:
        ConfigError: If a data set comes without its folder or the other way round, or beside a source; if
            `is_benchmark` or `train_on_all` is no switch, or comes without a data set; if the source is none.
    """
    if (dataset is None) != (folder is None) or (dataset is not None and (source is not None or open_dataset is None)):
        raise ConfigError(
            f"dataset and folder go together, and without source; got dataset={dataset!r}, folder={folder!r}, "
            f"source={source!r}."
        )
    if is_benchmark is not None:
        require_flag("is_benchmark", is_benchmark)
    require_flag("train_on_all", train_on_all)
    if dataset is not None and open_dataset is not None:
        return open_dataset(dataset, folder, is_benchmark=is_benchmark, train_on_all=train_on_all)
    if is_benchmark is not None:
        raise ConfigError(f"is_benchmark is of a dataset; got is_benchmark={is_benchmark} without dataset and folder.")
    if train_on_all:
        raise ConfigError("train_on_all is of a dataset; got train_on_all=True without dataset and folder.")
    chosen: SampleSource = resolved("source", generated if source is None else source, "draw", "find")
    return chosen
