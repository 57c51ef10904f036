"""Context of questions about a document: a contact sheet of its pages, and tools that find and show pages."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache

from vlm_envs.errors import ConfigError
from vlm_envs.qa.qa_context import QAContext, memory_of, written_call
from vlm_envs.qa.sample import Sample
from vlm_envs.tools.coordinates import size_within
from vlm_envs.tools.document_tools import (
    RetrievalSettings,
    document_overview,
    page_retrieval_by_index,
    page_retrieval_by_query,
    split_words,
)
from vlm_envs.tools.pdf_documents import Document, DocumentShelf
from vlm_envs.tools.pictures import MAX_STITCHED_PIXELS, ImageRef, Picture, sheet_grid, within_budget
from vlm_envs.tools.tool_memory import ORIGINAL_IMAGE, Memory
from vlm_envs.tools.tool_registry import ToolRegistry
from vlm_envs.tools.zoom import ZoomSettings, image_zoom_in_tool
from vlm_envs.validation import require_flag, require_positive

NOT_ANSWERABLE = "Not answerable"
"""The expected answer if the document does not contain one, as worded by MMLongBench-Doc."""

_MAX_QUERY_WORDS = 24


@dataclass(frozen=True)
class DocumentOverview:
    """The contact sheet of a document, drawn on demand.

    Attributes:
        document: The document.
        max_pixels: Pixel budget of the sheet.
    """

    document: Document
    max_pixels: int

    @property
    def _size(self) -> tuple[int, int]:
        """Columns and rows of the sheet, computed without drawing it."""
        grid = sheet_grid(self.document.num_pages, max_pixels=self.max_pixels)
        return size_within(grid.columns * grid.step[0], grid.rows * grid.step[1], self.max_pixels)

    @property
    def width(self) -> int:
        """Columns."""
        return self._size[0]

    @property
    def height(self) -> int:
        """Rows."""
        return self._size[1]

    @property
    def digest(self) -> str:
        """Hash of the document's digest and the budget."""
        return hashlib.blake2b(f"{self.document.digest} {self.max_pixels}".encode(), digest_size=16).hexdigest()

    def picture(self) -> Picture:
        """Returns the sheet, drawn unless it is cached.

        Raises:
            ToolError: If the document cannot be read.
        """
        return _drawn(self)


@lru_cache(maxsize=8)
def _drawn(overview: DocumentOverview) -> Picture:
    return within_budget(document_overview(overview.document, max_pixels=overview.max_pixels), overview.max_pixels)


@dataclass(frozen=True, kw_only=True)
class DocumentContext(QAContext):
    """A contact sheet of all pages, page retrieval by query or number, and zoom into shown images.

    Attributes:
        max_pixels: Pixel budget of every image as shown, including the sheet.
        show_sheet: Whether a conversation starts with the sheet; otherwise nothing is visible until a tool
            shows it.
        retrieval: Settings for retrieving and showing pages.
        zoom: Settings for cropping regions.
    """

    max_pixels: int = MAX_STITCHED_PIXELS
    show_sheet: bool = True
    retrieval: RetrievalSettings = field(default_factory=RetrievalSettings)
    zoom: ZoomSettings = field(default_factory=ZoomSettings)

    def __post_init__(self) -> None:
        require_positive("max_pixels", self.max_pixels)
        require_flag("show_sheet", self.show_sheet)

    def opening(self, sample: Sample) -> tuple[Memory, tuple[ImageRef, ...]]:
        """Returns the contact sheet, if shown, which tools know as `original_image`, and the sample's texts."""
        if not self.show_sheet:
            return memory_of(sample, {}), ()
        sheet = DocumentOverview(_document(sample), self.max_pixels)
        return memory_of(sample, {ORIGINAL_IMAGE: sheet}), (sheet,)

    def introduction(self, sample: Sample) -> str:
        """Returns the document's name and length, how pages are numbered, and how to answer if nothing is found."""
        document = _document(sample)
        numbers = "position in the file, counted from 1; numbers printed on the pages may differ from it.\n"
        shown = (
            f"Picture {ORIGINAL_IMAGE} shows all of them, each under its"
            if self.show_sheet
            else "Tools know each by its"
        )
        return (
            f"Document {document.name}: {document.num_pages} pages. {shown} {numbers}"
            f'If the document does not hold the answer, answer "{NOT_ANSWERABLE}".'
        )

    def tools(self, sample: Sample | None) -> ToolRegistry:
        """Returns the paper's document tools: pages by query, pages by number, and zoom."""
        shelf = DocumentShelf(() if sample is None else (_document(sample),))
        return ToolRegistry(
            (
                page_retrieval_by_query(shelf, self.retrieval),
                page_retrieval_by_index(shelf, self.retrieval),
                image_zoom_in_tool(self.zoom),
            )
        )

    def planned_calls(self, sample: Sample, max_calls: int) -> tuple[str, ...]:
        """Returns a search for the question's words, if the budget allows, then the pages with the answer.

        An expert searches before it answers that the document contains no answer. In a document without text,
        it views the first page instead.
        """
        pages = [_page_call(sample, page) for page in sample.evidence_pages[:max_calls]]
        if len(pages) == max_calls:
            return tuple(pages)
        if self._finds_anything(sample):
            return (_query_call(sample), *pages)
        return tuple(pages) or (_page_call(sample, 1),)

    def _finds_anything(self, sample: Sample) -> bool:
        return bool(self.retrieval.retriever.search(_document(sample), _query(sample)))


def _document(sample: Sample) -> Document:
    if sample.document is None:
        raise ConfigError(f"Sample {sample.sample_id!r} has no document. Use a source of questions about documents.")
    return sample.document


def _query(sample: Sample) -> str:
    """Returns up to `_MAX_QUERY_WORDS` words of a question, unchanged; the search ignores case."""
    return " ".join(split_words(sample.question)[:_MAX_QUERY_WORDS])


def _query_call(sample: Sample) -> str:
    return written_call("doc_page_retrieval_by_query", filename=_document(sample).name, query=_query(sample))


def _page_call(sample: Sample, page: int) -> str:
    return written_call("doc_page_retrieval_by_index", filename=_document(sample).name, image_idx=page)
