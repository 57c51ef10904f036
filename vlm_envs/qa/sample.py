"""Samples: a question with its answer and images or document. Sources make samples and find them again by id."""

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
    """One thing in an image that the answer depends on.

    Attributes:
        label: Its name, such as `red mug`; unambiguous within its image.
        box: Its bounding box, in pixels of the original.
        point: A pixel that belongs to it; None if only the box is known.
        image: Index of the image.
        has_box: Whether the box is annotated; otherwise it is just the pixel of the point.
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
        question: The question without its options.
        key: The answer, the options of a choice, and how answers are compared.
        category: Kind of question, for evaluations by kind; lower case with underscores.
        digest: Hash of everything a model is shown or asked; splits are disjoint by it.
        cluster: Id of the content shared with other questions of the dataset, such as an image or a document;
            empty if none is shared. Statistics treat questions with equal clusters as dependent.
        images: The images, the one in question first; or the frames of a video, in order.
        times_s: Time of each frame of a video, in seconds; otherwise empty.
        document: The document, if the question is about one.
        texts: Named texts that belong to the question, such as the responses to judge.
        evidence: Things in the images that the answer depends on; empty if there are none, or if they are not
            annotated.
        evidence_pages: Pages of the document that contain the answer, counted from 1.
        facts: True sentences, without coordinates, about what a careful look at the evidence shows. The
            oracle uses them as its reasoning.
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
        """Hash of the ground truth: the accepted answers, how they are compared, and the evidence.

        Two datasets may differ in nothing else. Boxes are in pixels of the original, so that the hash does
        not depend on the size at which a world shows it.
        """
        boxes = [(item.label, item.box.x1, item.box.y1, item.box.x2, item.box.y2, item.image) for item in self.evidence]
        key = self.key
        tolerance = () if key.tolerance is None else (key.tolerance,)
        truth = (key.kind, key.answers, key.options, boxes, self.evidence_pages, *tolerance)
        return hashlib.blake2b(json.dumps(truth, default=float).encode("ascii"), digest_size=16).hexdigest()


def cluster_id(kind: str, content: str) -> str:
    """Returns the cluster of samples that share some content: its kind and a hash.

    Args:
        kind: Kind of content, such as `image`.
        content: Its name or hash.
    """
    return f"{kind}-{hashlib.blake2b(content.encode('utf-8', 'surrogatepass'), digest_size=8).hexdigest()}"


class SampleSource(Protocol):
    """A source of samples: a generator, or a local copy of a dataset."""

    @property
    def name(self) -> str:
        """Prefix of the sample ids."""
        ...

    def draw(self, rng: np.random.Generator, split: str) -> Sample:
        """Returns a sample of a split.

        Args:
            rng: The only source of randomness.
            split: `"train"`, `"val"` or `"test"`; splits share no content.

        Raises:
            GenerationError: If there is no sample of the split.
        """
        ...

    def find(self, sample_id: str) -> Sample:
        """Returns the sample with an id of this source.

        Raises:
            LevelError: If the id does not belong to this source; the message shows an example.
        """
        ...


@runtime_checkable
class DividedSource(SampleSource, Protocol):
    """A source that knows the split of an id."""

    def split_of(self, sample_id: str) -> str | None:
        """Returns the split of the sample with an id, without reading stored images or documents.

        Raises:
            LevelError: If the id does not belong to this source.
        """
        ...


@runtime_checkable
class ListedSource(SampleSource, Protocol):
    """A source that lists its samples: val and test are traversed in order, each sample once."""

    def num_samples(self, split: str) -> int:
        """Returns the number of samples in a split."""
        ...

    def sample_at(self, index: int, split: str) -> Sample:
        """Returns a sample of a split by its index, in the order of the files."""
        ...


OpenDataset = Callable[..., SampleSource]
"""Opens a local copy of a dataset: its name, the folder, `is_benchmark`, and `train_on_all`, as for `QAWorld`."""


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
    """Returns the source that the arguments of a `vlm_envs.qa.qa_world.QAWorld` specify.

    Raises:
        ConfigError: If only one of dataset and folder is given, or both together with a source; if
            `is_benchmark` or `train_on_all` is not a bool, or is given without a dataset; or if the source is
            not valid.
    """
    if (dataset is None) != (folder is None) or (dataset is not None and (source is not None or open_dataset is None)):
        raise ConfigError(
            f"Give both dataset and folder, or a source; got dataset={dataset!r}, folder={folder!r}, source={source!r}."
        )
    if is_benchmark is not None:
        require_flag("is_benchmark", is_benchmark)
    require_flag("train_on_all", train_on_all)
    if dataset is not None and open_dataset is not None:
        return open_dataset(dataset, folder, is_benchmark=is_benchmark, train_on_all=train_on_all)
    if is_benchmark is not None:
        raise ConfigError(f"is_benchmark={is_benchmark} needs a dataset; give dataset and folder, or remove it.")
    if train_on_all:
        raise ConfigError("train_on_all=True needs a dataset; give dataset and folder, or remove it.")
    chosen: SampleSource = resolved("source", generated if source is None else source, "draw", "find")
    return chosen
