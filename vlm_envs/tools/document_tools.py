"""`doc_page_retrieval_by_query` and `doc_page_retrieval_by_index`: pages of a document (ARM-Thinker, appendix E)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from vlm_envs.errors import require_positive
from vlm_envs.tools.arguments import WHOLE_NUMBER, Arguments, Field
from vlm_envs.tools.documents import PAGE_LONG_SIDE_PX, Document, DocumentStore, check_page_number
from vlm_envs.tools.errors import ToolError, ToolErrorKind, quoted
from vlm_envs.tools.pictures import Picture
from vlm_envs.tools.registry import Tool, ToolOutput
from vlm_envs.tools.retrieval import Bm25Retriever, Retriever
from vlm_envs.tools.sheets import MAX_STITCHED_PIXELS, PADDING_PX, contact_sheet, sheet_grid, stitched_row
from vlm_envs.tools.stores import Memory


@dataclass(frozen=True, kw_only=True)
class RetrievalSettings:
    """How pages are found and shown.

    Attributes:
        retriever: Ranks pages.
        num_pages: Most pages one query shows (paper: 5).
        long_side_px: Longer side of a page (paper: 1120).
        padding_px: Between pages (our choice).
        max_pixels: Budget of a stitched picture (our choice; the paper has one and does not say how much).
    """

    retriever: Retriever = field(default_factory=Bm25Retriever)
    num_pages: int = 5
    long_side_px: int = PAGE_LONG_SIDE_PX
    padding_px: int = PADDING_PX
    max_pixels: int = MAX_STITCHED_PIXELS

    def __post_init__(self) -> None:
        for name in ("num_pages", "long_side_px", "max_pixels"):
            require_positive(name, getattr(self, name))
        require_positive("padding_px", self.padding_px, minimum=0)


_FileName = Annotated[str, Field(description="Name of the document.")]


class QueryArguments(Arguments):
    """Arguments of `doc_page_retrieval_by_query`."""

    filename: _FileName
    query: Annotated[str, Field(description="Words that the page you look for should hold.")]


class IndexArguments(Arguments):
    """Arguments of `doc_page_retrieval_by_index`."""

    filename: _FileName
    image_idx: Annotated[int, Field(description="Number of the page, counted from 1."), WHOLE_NUMBER]


def page_retrieval_by_query(store: DocumentStore, settings: RetrievalSettings | None = None) -> Tool[QueryArguments]:
    """Makes the tool that finds pages by words.

    The paper takes the 5 best hits and then leaves out duplicates; ours leaves them out first, so that 5 pages come
    if 5 match. A query that matches nothing is refused, where the paper's vectors always name some page.

    Args:
        store: The documents.
        settings: How pages are found and shown.

    Returns:
        The tool `doc_page_retrieval_by_query(filename, query)`.
    """
    used = settings if settings is not None else RetrievalSettings()

    def run(arguments: QueryArguments, memory: Memory) -> ToolOutput:
        document = store.document(arguments.filename)
        found = used.retriever.search(document, arguments.query)
        numbers = list(dict.fromkeys(found))[: used.num_pages]
        if not numbers:
            raise ToolError(
                ToolErrorKind.NO_MATCH,
                f"No page of {document.name} matches {quoted(arguments.query)}. Try other words, or ask for a page by "
                f"its number, 1 to {document.num_pages}.",
            )
        pages = [document.page_picture(number, used.long_side_px) for number in numbers]
        row = stitched_row(pages, padding_px=used.padding_px, max_pixels=used.max_pixels)
        return ToolOutput(
            f"Pages of {document.name} that match best, from left to right: {', '.join(map(str, numbers))}. If they do "
            "not hold the answer, try other words.",
            (row,),
        )

    return Tool(
        name="doc_page_retrieval_by_query",
        description=f"Finds the up to {used.num_pages} pages of a document that match a query best, and shows them "
        "side by side.",
        arguments=QueryArguments,
        run=run,
    )


def page_retrieval_by_index(store: DocumentStore, settings: RetrievalSettings | None = None) -> Tool[IndexArguments]:
    """Makes the tool that shows a page by its number.

    Args:
        store: The documents.
        settings: How pages are shown.

    Returns:
        The tool `doc_page_retrieval_by_index(filename, image_idx)`.
    """
    used = settings if settings is not None else RetrievalSettings()

    def run(arguments: IndexArguments, memory: Memory) -> ToolOutput:
        document = store.document(arguments.filename)
        check_page_number(document, arguments.image_idx)
        page = document.page_picture(arguments.image_idx, used.long_side_px)
        return ToolOutput(f"Page {arguments.image_idx} of {document.num_pages} of {document.name}.", (page,))

    return Tool(
        name="doc_page_retrieval_by_index",
        description="Shows one page of a document, by its number.",
        arguments=IndexArguments,
        run=run,
    )


def document_overview(document: Document, *, max_pixels: int = MAX_STITCHED_PIXELS) -> Picture:
    """Returns the contact sheet that a conversation about a document begins with.

    Pages are rendered at the size they have on the sheet, so that a long document costs no more than a short one.

    Args:
        document: The document.
        max_pixels: Budget of the sheet.

    Returns:
        All pages in rows, each under its number.

    Raises:
        ToolError: If the document cannot be read.
    """
    long_side_px = sheet_grid(document.num_pages, max_pixels=max_pixels).height
    pages = [document.page_picture(number, long_side_px) for number in range(1, document.num_pages + 1)]
    return contact_sheet(pages, max_pixels=max_pixels)
