"""What a judge works with: the picture or the document, the responses by name, and the tools of its tracks."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from vlm_envs.content.judging.cases import TRACKS, Case
from vlm_envs.content.judging.samples import request_of, response_name
from vlm_envs.content.judging.source import JudgingSource
from vlm_envs.errors import LevelError
from vlm_envs.qa.document_context import DocumentContext
from vlm_envs.qa.qa_context import PictureContext, QAContext
from vlm_envs.qa.sample import Sample
from vlm_envs.tools.coordinates import OriginalPixels, ShownPixels, shown_space
from vlm_envs.tools.document_tools import page_retrieval_by_index, page_retrieval_by_query
from vlm_envs.tools.instruction_checkers import CHECKERS, Constraint
from vlm_envs.tools.instructions import checker_tools
from vlm_envs.tools.pdf_documents import DocumentShelf
from vlm_envs.tools.pictures import ImageRef, Picture, within_budget
from vlm_envs.tools.tool_memory import Memory
from vlm_envs.tools.tool_registry import ToolRegistry
from vlm_envs.tools.zoom import image_zoom_in_tool


@dataclass(frozen=True, slots=True)
class Reduced:
    """A picture scaled down to a budget when somebody looks at it.

    Attributes:
        image: The picture.
        max_pixels: The budget.
    """

    image: ImageRef
    max_pixels: int

    @property
    def _space(self) -> ShownPixels:
        return shown_space(OriginalPixels(self.image.width, self.image.height), self.max_pixels)

    @property
    def width(self) -> int:
        """Columns."""
        return self._space.width

    @property
    def height(self) -> int:
        """Rows."""
        return self._space.height

    @property
    def digest(self) -> str:
        """Names the picture and the budget."""
        return f"{self.image.digest} within {self.max_pixels}"

    def picture(self) -> Picture:
        """Returns the scaled picture."""
        return within_budget(self.image.picture(), self.max_pixels)


@dataclass(frozen=True, kw_only=True)
class JudgingContext(QAContext):
    """Pictures, documents and responses, with the tools of the tracks that there are.

    Attributes:
        source: Where cases come from, by which an expert knows what is wrong; None where nobody knows.
        tracks: Whose tools there are.
        profile: Definition by which the checks check.
        checks: Names of the checks that can be called.
        pictures: How pictures are laid out; small things are to be too small to see at first.
        documents: How documents are.
    """

    source: JudgingSource | None = None
    tracks: tuple[str, ...] = TRACKS
    profile: str = "arm"
    checks: tuple[str, ...] = tuple(CHECKERS)
    pictures: PictureContext = field(default_factory=PictureContext)
    documents: DocumentContext = field(default_factory=DocumentContext)

    @property
    def max_pixels(self) -> int:  # type: ignore[override]
        """Budget of what is shown: the larger of both, since pictures are scaled to their own before."""
        return max(self.pictures.max_pixels, self.documents.max_pixels)

    def opening(self, sample: Sample) -> tuple[Memory, tuple[ImageRef, ...]]:
        """Returns pictures and responses under their names, and shows the pictures, or a contact sheet of the pages."""
        if sample.document is not None:
            return self.documents.opening(sample)
        memory, shown = self.pictures.opening(sample)
        return memory, tuple(Reduced(image, self.pictures.max_pixels) for image in shown)

    def introduction(self, sample: Sample) -> str:
        """Returns names and sizes of the pictures, or name and pages of the document."""
        if sample.document is None:
            return self.pictures.introduction(sample)
        return (
            f"Document {sample.document.name}: {sample.document.num_pages} pages. Picture original_image shows all of "
            "them, each under its position in the file, counted from 1; numbers printed on the pages may differ."
        )

    def tools(self, sample: Sample | None) -> ToolRegistry:
        """Returns the tools of all tracks; of documents that of the sample can be looked at."""
        shelf = DocumentShelf((sample.document,) if sample is not None and sample.document is not None else ())
        registry = ToolRegistry()
        if {"fine_grained", "document"} & set(self.tracks):
            registry = registry.with_tools((image_zoom_in_tool(self.pictures.zoom),))
        if "document" in self.tracks:
            retrieval = self.documents.retrieval
            by_query, by_index = page_retrieval_by_query(shelf, retrieval), page_retrieval_by_index(shelf, retrieval)
            registry = registry.with_tools((by_query, by_index))
        if "instruction_following" in self.tracks:
            registry = registry.with_tools(checker_tools(self.profile, self.checks))
        return registry

    def planned_calls(self, sample: Sample, max_calls: int) -> tuple[str, ...]:
        """Returns what a careful judge does: checks of responses, a look at each page, a zoom into evidence."""
        if sample.document is not None:
            return tuple(_page_calls(sample))[:max_calls]
        if not sample.images and (case := self._case(sample)) is not None:
            return tuple(dict.fromkeys(_check_calls(case)))[:max_calls]
        return self.pictures.planned_calls(sample, max_calls)

    def shown_pixels(self, sample: Sample) -> ShownPixels | None:
        """Returns the size of the first picture as it is shown."""
        return self.pictures.shown_pixels(sample)

    def _case(self, sample: Sample) -> Case | None:
        """Returns the case behind a sample; None for one of another source."""
        if self.source is None:
            return None
        try:
            return _case(self.source, sample.sample_id)
        except LevelError:
            return None


@functools.lru_cache(maxsize=64)
def _case(source: JudgingSource, sample_id: str) -> Case:
    return source.case(sample_id)


def _page_calls(sample: Sample) -> Iterator[str]:
    """Yields a call for each page that holds the answer; where none does, a search for the words of the request."""
    assert sample.document is not None
    name = sample.document.name
    for page in sample.evidence_pages:
        yield _call("doc_page_retrieval_by_index", filename=name, image_idx=page)
    if not sample.evidence_pages:
        yield _call("doc_page_retrieval_by_query", filename=name, query=request_of(sample.question))


def _check_calls(case: Case) -> Iterator[str]:
    """Yields the checks that tell.

    Of one response or of two, each requirement of the first one, up to one that it fails; who is right follows. Of four
    there are too many: what each flawed one fails.
    """
    for index, candidate in enumerate(case.candidates[:1] if len(case.candidates) <= 2 else case.candidates):
        for constraint in case.constraints:
            fails = candidate.flaw is not None and candidate.flaw.kind.endswith(f":{constraint.checker}")
            if fails or len(case.candidates) <= 2:
                yield _check_call(constraint, response_name(index))
            if fails:
                break


def _check_call(constraint: Constraint, name: str) -> str:
    """Returns a check of a response as it is called."""
    return _call(constraint.checker, **constraint.arguments.model_dump(mode="json"), response=name)


def _call(tool: str, **arguments: object) -> str:
    return json.dumps({"name": tool, "arguments": arguments}, ensure_ascii=False)
