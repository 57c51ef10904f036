"""Tools that retrieve pages of a document by query or index (ARM-Thinker, appendix E), and their retrievers."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol

import numpy as np
import numpy.typing as npt

from vlm_envs.errors import ConfigError
from vlm_envs.tools.data_files import BoundedCache
from vlm_envs.tools.pdf_documents import PAGE_LONG_SIDE_PX, Document, DocumentStore, check_page_number
from vlm_envs.tools.pictures import MAX_STITCHED_PIXELS, Picture, contact_sheet, sheet_grid, stitched_row
from vlm_envs.tools.tool_arguments import WHOLE_NUMBER, Arguments, Field
from vlm_envs.tools.tool_errors import ToolError, ToolErrorKind, quoted, require_package
from vlm_envs.tools.tool_memory import Memory
from vlm_envs.tools.tool_registry import Tool, ToolOutput
from vlm_envs.validation import require_positive

MAX_QUERY_CHARS = 2_000
"""Maximum length of a query; the rest is ignored."""

_MAX_INDEXES = 64
_HYPHEN = "\N{SOFT HYPHEN}"
_DIVISION = re.compile("[\xad\x02\ufffe]\\s*|(?<=\\w)[-\u2010][^\\S\n]*\\n\\s*(?=\\w)")
"""Where a word continues on the next line; U+FFFE and U+0002 are PDFium's markers."""

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer.
    "\u1100-\u11ff\uac00-\ud7ff"  # Korean, whose words carry endings.
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"  # Japanese.
    "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Chinese.
)
_RUN = re.compile(f"(?P<unspaced>[{_UNSPACED}]+)|[^{_UNSPACED}]+")
_LINE_END = re.compile(rf"(?<=[{_UNSPACED}])[^\S\n]*\n\s*(?=[{_UNSPACED}])")


class Retriever(Protocol):
    """Ranks the pages of a document."""

    def search(self, document: Document, query: str) -> list[int]:
        """Returns page numbers from 1, the best first; only pages that match.

        A page may occur more than once, if several of its passages match.
        """


def split_words(text: str) -> list[str]:
    """Returns the words of a text unchanged, including their combining marks (`हिन्दी`)."""
    marks = {character for character in set(text) if unicodedata.category(character) in ("Mn", "Mc")}
    return re.findall(rf"\w[\w{re.escape(''.join(sorted(marks)))}]*", text)


def words(text: str) -> list[str]:
    """Returns the words that index a page: NFKC, case folded, including digits and single letters.

    Numbers matter in documents ("table 3", "2021"), so no word is omitted by length, and there are no stop
    words: BM25 itself gives little weight to words on every page.

    A word divided at the end of a line is indexed as a whole and in its parts, since the hyphen may be part
    of it ("self-made"). Text in scripts without spaces is indexed by characters and pairs of neighbors.
    """
    return [part for word in _readings(text) for part in _parts(word, with_single=True)]


def query_words(text: str) -> list[str]:
    """Returns the words of a query: like `words`, but single characters only if a run consists of one."""
    return [part for word in _readings(text) for part in _parts(word, with_single=False)]


def _readings(text: str) -> list[str]:
    """Returns the words of a text, and both the whole and the parts of each divided one."""
    text = unicodedata.normalize("NFKC", text).casefold()
    text = _LINE_END.sub("", _DIVISION.sub(_HYPHEN, text))
    found = split_words(text.replace(_HYPHEN, " "))
    if _HYPHEN in text:
        runs = re.findall(r"\S*" + _HYPHEN + r"\S*", text)
        found += [word for run in runs for word in split_words(run.replace(_HYPHEN, ""))]
    return found


def _parts(word: str, *, with_single: bool) -> Iterator[str]:
    """Yields a word's index terms: the word itself, or for scripts without spaces its characters or pairs."""
    for run in _RUN.finditer(word):
        text = run[0]
        if not run["unspaced"]:
            yield text
            continue
        if with_single or len(text) == 1:
            yield from text
        yield from map("".join, itertools.pairwise(text))


class Bm25Retriever:
    """BM25 over the words of each page's text layer (bm25s, its default: Lucene's variant, k1 = 1.5, b = 0.75).

    ARM-Thinker ranks pages by CLIP vectors instead; see `DenseRetriever`.
    """

    def __init__(self) -> None:
        self._indexes: BoundedCache[Any] = BoundedCache(_MAX_INDEXES)

    def search(self, document: Document, query: str) -> list[int]:
        """Returns the pages that share a word with the query, the best first; ties go to the earlier page.

        Args:
            document: The document to search.
            query: Words; only the first `MAX_QUERY_CHARS` characters count.

        Returns:
            Page numbers from 1, without duplicates.

        Raises:
            EngineUnavailableError: If bm25s is not installed.
            ToolError: If the document cannot be read.
        """
        index = self._indexes.get(document.digest, lambda: _bm25_index(document))
        if index is None:
            return []
        known = [word for word in query_words(query[:MAX_QUERY_CHARS]) if word in index.vocab_dict]
        if not known:
            return []
        return _ranked(np.asarray(index.get_scores(known), np.float64))


def _bm25_index(document: Document) -> Any:
    """Returns bm25s's index of a document; None if it has no words."""
    bm25s = require_package("bm25s", "Searching documents by words")
    pages = [words(document.page_text(number)) for number in range(1, document.num_pages + 1)]
    if not any(pages):
        return None
    index = bm25s.BM25()
    index.index(pages, show_progress=False)
    return index


Vectors = npt.NDArray[np.float64]


class PageEncoder(Protocol):
    """Embeds pages and queries in the same space, such as CLIP's; implement it to use your own model."""

    def encode_pages(self, document: Document) -> npt.NDArray[np.float32]:
        """Returns float[num_pages, dimensions]."""

    def encode_query(self, query: str) -> npt.NDArray[np.float32]:
        """Returns float[dimensions]."""


class DenseRetriever:
    """Exact search by cosine similarity; documents have too few pages to need an approximation.

    Args:
        encoder: Computes the vectors.
    """

    def __init__(self, encoder: PageEncoder) -> None:
        self._encoder = encoder
        self._indexes: BoundedCache[Vectors] = BoundedCache(_MAX_INDEXES)

    def search(self, document: Document, query: str) -> list[int]:
        """Returns every page, the most similar first; ties go to the earlier page.

        Raises:
            ConfigError: If the encoder's vectors have a wrong shape or are not finite.
        """
        vectors = self._indexes.get(document.digest, lambda: self._vectors(document))
        query_vector = np.asarray(self._encoder.encode_query(query[:MAX_QUERY_CHARS]), np.float64)
        if query_vector.shape != vectors.shape[1:]:
            raise ConfigError(f"Expected a query vector of shape {vectors.shape[1:]}; got {query_vector.shape}.")
        similarities = vectors @ _unit(query_vector[None])[0]
        return _ranked(similarities, above=-np.inf)

    def _vectors(self, document: Document) -> Vectors:
        vectors = np.asarray(self._encoder.encode_pages(document), np.float64)
        if vectors.ndim != 2 or len(vectors) != document.num_pages:
            raise ConfigError(f"Expected vectors of shape ({document.num_pages}, dimensions); got {vectors.shape}.")
        return _unit(vectors)


def _unit(vectors: Vectors) -> Vectors:
    """Normalizes vectors[N, D] to length 1; zero vectors are unchanged."""
    if not np.isfinite(vectors).all():
        raise ConfigError("An encoder's vectors must be finite.")
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1.0))


def _ranked(scores: Vectors, *, above: float = 0.0) -> list[int]:
    """Returns page numbers by decreasing score above a threshold; ties go to the earlier page."""
    order = np.argsort(-scores, kind="stable")
    return [int(index) + 1 for index in order if scores[index] > above]


@dataclass(frozen=True, kw_only=True)
class RetrievalSettings:
    """Settings for retrieving and showing pages.

    Attributes:
        retriever: Ranks pages.
        num_pages: Maximum number of pages shown per query (paper: 5).
        long_side_px: Longer side of a page (paper: 1120).
        max_pixels: Pixel budget of a stitched image (our choice; the paper does not specify its budget).
    """

    retriever: Retriever = field(default_factory=Bm25Retriever)
    num_pages: int = 5
    long_side_px: int = PAGE_LONG_SIDE_PX
    max_pixels: int = MAX_STITCHED_PIXELS

    def __post_init__(self) -> None:
        for name in ("num_pages", "long_side_px", "max_pixels"):
            require_positive(name, getattr(self, name))


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
    """Makes the tool that retrieves pages by words.

    The paper takes the 5 best hits and then removes duplicates; ours removes them first, so that 5 pages are
    shown if 5 match. A query without a match is an error, whereas the paper's vectors always match some page.

    Args:
        store: The documents.
        settings: Settings for retrieving and showing pages.

    Returns:
        The tool `doc_page_retrieval_by_query(filename, query)`.
    """
    used = settings or RetrievalSettings()

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
        row = stitched_row(pages, max_pixels=used.max_pixels)
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
        settings: Settings for showing pages.

    Returns:
        The tool `doc_page_retrieval_by_index(filename, image_idx)`.
    """
    used = settings or RetrievalSettings()

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
    """Returns the contact sheet that starts a conversation about a document.

    Pages are rendered at their size on the sheet, so that a long document costs no more than a short one.

    Args:
        document: The document.
        max_pixels: Pixel budget of the sheet.

    Returns:
        All pages in rows, each with its number above.

    Raises:
        ToolError: If the document cannot be read.
    """
    long_side_px = sheet_grid(document.num_pages, max_pixels=max_pixels).height
    pages = [document.page_picture(number, long_side_px) for number in range(1, document.num_pages + 1)]
    return contact_sheet(pages, max_pixels=max_pixels)
