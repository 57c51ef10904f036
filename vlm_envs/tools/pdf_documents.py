"""Documents as pages with images and text layers, from PDF files or page images, within limits.

PDFium is not thread-safe, so a lock in this module guards all of it. Rendering has no time limit; documents
come from the user's own folder or from a generator, never from the model.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import hashlib
import math
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from vlm_envs.errors import ConfigError
from vlm_envs.tools.data_files import BoundedCache, FileRoot
from vlm_envs.tools.pictures import Picture, within_long_side
from vlm_envs.tools.tool_errors import ToolError, ToolErrorKind, listed, quoted, require_package

MAX_PAGES = 500
"""Maximum number of pages of a document."""

MAX_PDF_BYTES = 128 * 1024 * 1024
MAX_PAGE_CHARS = 100_000
"""Maximum number of characters read from a page's text layer."""

PAGE_LONG_SIDE_PX = 1120
"""ARM-Thinker's RAG_IMAGE_MAX_SIDE."""

_DIVISIONS = dict.fromkeys((0xFFFE, 0x0002), "\N{SOFT HYPHEN}")
"""PDFium's markers for the hyphen of a divided word, which depend on its version and are not characters
elsewhere."""

_PASSWORD_ERROR, _SECURITY_ERROR = 4, 5
_pdfium_lock = threading.RLock()


class Document(Protocol):
    """Pages, numbered from 1."""

    @property
    def name(self) -> str:
        """Its name in tools."""

    @property
    def digest(self) -> str:
        """Hash of its content; equal documents have equal digests."""

    @property
    def num_pages(self) -> int:
        """Number of pages."""

    def page_text(self, number: int) -> str:
        """Returns the text layer of a page; empty for a scan. Soft hyphens mark words divided at a line end."""

    def page_picture(self, number: int, long_side_px: int = PAGE_LONG_SIDE_PX) -> Picture:
        """Renders a page with a longer side of at most `long_side_px`."""


def check_page_number(document: Document, number: int) -> None:
    """Rejects page numbers that a document does not have.

    Raises:
        ToolError: `PAGE_OUT_OF_RANGE`.
    """
    if not 1 <= number <= document.num_pages:
        raise ToolError(
            ToolErrorKind.PAGE_OUT_OF_RANGE,
            f"{document.name} has {document.num_pages} pages, numbered from 1 to {document.num_pages}; "
            f"got {quoted(number)}.",
        )


@dataclass(frozen=True)
class PictureDocument:
    """A document of page images, as in MP-DocVQA.

    Attributes:
        name: Its name in tools.
        pages: The pages, at least one.
        texts: Their texts, such as OCR; one per page, or empty.
    """

    name: str
    pages: tuple[Picture, ...]
    texts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= len(self.pages) <= MAX_PAGES:
            raise ConfigError(f"A document must have 1 to {MAX_PAGES} pages; got {len(self.pages)}.")
        if len(self.texts) not in (0, len(self.pages)):
            raise ConfigError(f"Expected no texts or one for each of {len(self.pages)} pages; got {len(self.texts)}.")

    @property
    def digest(self) -> str:
        """Hash of images and texts."""
        content = hashlib.blake2b(digest_size=16)
        for page in self.pages:
            content.update(page.digest.encode())
        for text in self.texts:
            content.update(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest())
        return content.hexdigest()

    @property
    def num_pages(self) -> int:
        """Number of pages."""
        return len(self.pages)

    def page_text(self, number: int) -> str:
        """Returns a page's text."""
        check_page_number(self, number)
        return self.texts[number - 1][:MAX_PAGE_CHARS] if self.texts else ""

    def page_picture(self, number: int, long_side_px: int = PAGE_LONG_SIDE_PX) -> Picture:
        """Returns a page, scaled down if it is larger than `long_side_px`."""
        check_page_number(self, number)
        return within_long_side(self.pages[number - 1], long_side_px)


class PdfDocument:
    """A PDF that is opened lazily; unpickled copies reopen it.

    Args:
        name: Its name in tools.
        content: The file's bytes.
        max_pages: Longer documents are rejected.

    Attributes:
        name: Its name in tools.
        digest: Hash of the file's bytes.

    Raises:
        EngineUnavailableError: On first use, if pypdfium2 is not installed.
    """

    def __init__(self, name: str, content: bytes, *, max_pages: int = MAX_PAGES) -> None:
        self.name = name
        self._content = content
        self._max_pages = max_pages
        self.digest = hashlib.blake2b(content, digest_size=16).hexdigest()
        self._pdf: Any = None

    @property
    def num_pages(self) -> int:
        """Number of pages.

        Raises:
            ToolError: `UNREADABLE_FILE` if the file is broken, encrypted, or has no pages; `TOO_LARGE`.
        """
        with _pdfium_lock:
            return len(self._opened())

    def page_text(self, number: int) -> str:
        """Returns the text layer of a page and the values of its form fields, at most `MAX_PAGE_CHARS` characters.

        Empty for a scan. A soft hyphen marks a word divided at the end of a line.

        Raises:
            ToolError: As `num_pages`; `PAGE_OUT_OF_RANGE`.
        """
        check_page_number(self, number)
        with _pdfium_lock, self._page(number) as page:
            text_page = page.get_textpage()
            try:
                num_chars = min(text_page.count_chars(), MAX_PAGE_CHARS)
                text = str(text_page.get_text_range(0, num_chars)) if num_chars > 0 else ""
            finally:
                text_page.close()
            texts = (text.translate(_DIVISIONS), *annotation_texts(page))
        return "\n".join(filter(None, texts))[:MAX_PAGE_CHARS]

    def page_picture(self, number: int, long_side_px: int = PAGE_LONG_SIDE_PX) -> Picture:
        """Renders a page so that its longer side has `long_side_px` pixels.

        Raises:
            ToolError: As `num_pages`; `PAGE_OUT_OF_RANGE`.
        """
        check_page_number(self, number)
        with _pdfium_lock, self._page(number) as page:
            sides = page.get_size()
            if not all(math.isfinite(side) and side > 0 for side in sides):
                raise self._broken(f"page {number} has no size")
            bitmap = page.render(scale=long_side_px / max(sides), rev_byteorder=True)
            try:
                picture = Picture(np.ascontiguousarray(bitmap.to_numpy()[..., :3]))
            finally:
                bitmap.close()
        return within_long_side(picture, long_side_px)  # PDFium rounds sizes up

    def close(self) -> None:
        """Closes the file; the next use reopens it."""
        with _pdfium_lock:
            if self._pdf is not None:
                self._pdf.close()
                self._pdf = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pdf": None}

    @contextmanager
    def _page(self, number: int) -> Iterator[Any]:
        """Yields a loaded page; PDFium's exceptions become `ToolError`. The caller holds the lock."""
        pdf = self._opened()
        try:
            page = pdf.get_page(number - 1)
            try:
                yield page
            finally:
                page.close()
        except require_package("pypdfium2", "Reading PDF files").PdfiumError as error:
            raise self._broken(f"page {number} is damaged") from error

    def _opened(self) -> Any:
        """Returns PDFium's handle. The caller holds the lock."""
        if self._pdf is None:
            self._pdf = self._open()
            _open_documents.add(self)
        return self._pdf

    def _open(self) -> Any:
        pdfium = require_package("pypdfium2", "Reading PDF files")
        _close_all_at_exit()
        if len(self._content) > MAX_PDF_BYTES:
            raise ToolError(
                ToolErrorKind.TOO_LARGE,
                f"{quoted(self.name)} has {len(self._content)} bytes; at most {MAX_PDF_BYTES} are read.",
            )
        try:
            pdf = pdfium.PdfDocument(self._content)
            pdf.init_forms()  # before any page is loaded, or fields are not drawn
        except pdfium.PdfiumError as error:
            # PDFium may still report the error of an earlier file; versions of pypdfium2 before 5 have no
            # error code
            locked = getattr(error, "err_code", None) in (_PASSWORD_ERROR, _SECURITY_ERROR) or "assword" in str(error)
            if locked and b"/Encrypt" in self._content:
                raise self._broken("it is encrypted and needs a password") from error
            raise self._broken("it is no PDF, a damaged one, or one without pages") from error
        num_pages = len(pdf)
        if not 1 <= num_pages <= self._max_pages:
            pdf.close()
            if num_pages < 1:
                raise self._broken("it has no pages")
            raise ToolError(
                ToolErrorKind.TOO_LARGE,
                f"{quoted(self.name)} has {num_pages} pages; documents of at most {self._max_pages} are opened.",
            )
        return pdf

    def _broken(self, reason: str) -> ToolError:
        return ToolError(ToolErrorKind.UNREADABLE_FILE, f"The document {quoted(self.name)} cannot be read: {reason}.")


_open_documents: weakref.WeakSet[PdfDocument] = weakref.WeakSet()


@functools.cache
def _close_all_at_exit() -> None:
    """Closes open documents at exit; registered after PDFium's package is imported, so that it runs first.

    The package would also close the documents, with a warning for each.
    """

    def close_all() -> None:
        for document in list(_open_documents):
            document.close()

    atexit.register(close_all)


class DocumentStore(Protocol):
    """Documents by name."""

    def names(self) -> list[str]:
        """Returns the available names, in order."""

    def document(self, name: str) -> Document:
        """Returns a document.

        Raises:
            ToolError: `UNKNOWN_FILE` with the available names, or any error of opening the document.
        """


class DocumentShelf:
    """Documents in memory.

    Args:
        documents: Documents with distinct names.

    Raises:
        ConfigError: If two have the same name.
    """

    def __init__(self, documents: Sequence[Document]) -> None:
        self._documents: Mapping[str, Document] = {document.name: document for document in documents}
        if len(self._documents) < len(documents):
            raise ConfigError(f"Documents must have distinct names; got {[document.name for document in documents]}.")
        for name in self._documents:
            if not name.isprintable() or {"<", ">"} & set(name):
                raise ConfigError(f"A document's name must be printable, without < and >; got {name!r}.")

    def names(self) -> list[str]:
        """Returns the available names, in order."""
        return sorted(self._documents)

    def document(self, name: str) -> Document:
        """Returns a document.

        Raises:
            ToolError: `UNKNOWN_FILE`.
        """
        if name not in self._documents:
            raise ToolError(
                ToolErrorKind.UNKNOWN_FILE,
                f"There is no document {quoted(name)}. Documents that exist: {listed(self.names())}.",
            )
        return self._documents[name]


class PdfFolder:
    """The PDF files of a folder, by file name with or without `.pdf`.

    Args:
        folder: An existing folder.
        max_pages: Longer documents are rejected.
        max_open: Maximum number of open documents; the least recently used is closed.
        follows_links: Whether links may lead outside, as in `FileRoot`.

    Raises:
        ConfigError: If it is not a folder.
    """

    def __init__(
        self, folder: str | Path, *, max_pages: int = MAX_PAGES, max_open: int = 8, follows_links: bool = False
    ) -> None:
        self._root = FileRoot(folder, follows_links=follows_links)
        self._max_pages = max_pages
        self._open: BoundedCache[PdfDocument] = BoundedCache(max_open, drop=PdfDocument.close)

    def names(self) -> list[str]:
        """Returns the PDF files directly in the folder, in order."""
        return self._root.names(".pdf")

    def document(self, name: str) -> Document:
        """Returns a document.

        Raises:
            ToolError: As `FileRoot.read`.
        """
        file_name = name if name.lower().endswith(".pdf") else f"{name[:1000]}.pdf"
        return self._open.get(file_name, lambda: self._opened(file_name))

    def _opened(self, file_name: str) -> PdfDocument:
        return PdfDocument(file_name, self._root.read(file_name, max_bytes=MAX_PDF_BYTES), max_pages=self._max_pages)


MAX_ANNOTATIONS = 2_000
"""Maximum number of annotations read per page."""

_PASSWORD_FLAG = 1 << 13  # PDF 32000-1, table 228


def annotation_texts(page: Any) -> list[str]:
    """Returns the visible texts of a pypdfium2 page's form fields and free-text notes, in file order.

    Text fields, lists, and combo boxes count; check boxes and buttons show no text. Fields are found only if
    the document's `init_forms` was called before the page was loaded. The caller holds PDFium's lock.
    """
    pdfium = import_module("pypdfium2.raw")
    texts = []
    for index in range(min(pdfium.FPDFPage_GetAnnotCount(page), MAX_ANNOTATIONS)):
        if annotation := pdfium.FPDFPage_GetAnnot(page, index):
            try:
                texts.append(_text(pdfium, page.formenv, annotation))
            finally:
                pdfium.FPDFPage_CloseAnnot(annotation)
    return [text for text in texts if text.strip()]


def _text(pdfium: Any, form: Any, annotation: Any) -> str:
    """Returns the visible text of an annotation, or an empty string."""
    if pdfium.FPDFAnnot_GetFlags(annotation) & (pdfium.FPDF_ANNOT_FLAG_HIDDEN | pdfium.FPDF_ANNOT_FLAG_NOVIEW):
        return ""
    if pdfium.FPDFAnnot_GetSubtype(annotation) == pdfium.FPDF_ANNOT_FREETEXT:
        return _string(lambda *room: pdfium.FPDFAnnot_GetStringValue(annotation, b"Contents", *room), pdfium)
    if form is None or pdfium.FPDFAnnot_GetFormFieldType(form, annotation) not in (
        pdfium.FPDF_FORMFIELD_TEXTFIELD,
        pdfium.FPDF_FORMFIELD_COMBOBOX,
        pdfium.FPDF_FORMFIELD_LISTBOX,
    ):
        return ""
    if pdfium.FPDFAnnot_GetFormFieldFlags(form, annotation) & _PASSWORD_FLAG:
        return ""
    return _string(lambda *room: pdfium.FPDFAnnot_GetFormFieldValue(form, annotation, *room), pdfium)


def _string(read: Callable[..., int], pdfium: Any) -> str:
    """Calls a PDFium function that writes null-terminated UTF-16 into a buffer and returns its size."""
    num_bytes = read(None, 0)
    buffer = ctypes.create_string_buffer(num_bytes)
    read(ctypes.cast(buffer, ctypes.POINTER(pdfium.FPDF_WCHAR)), num_bytes)
    return buffer.raw.decode("utf-16-le", "replace").rstrip("\0")
