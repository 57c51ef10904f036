"""Documents that lie in a user's folder: values that are read when somebody looks."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import lru_cache

from vlm_envs.tools.documents import MAX_PAGE_CHARS, PAGE_LONG_SIDE_PX, Document, PdfFolder, check_page_number
from vlm_envs.tools.errors import ToolError, ToolErrorKind, quoted
from vlm_envs.tools.files import FileRoot, decode_image
from vlm_envs.tools.pictures import Picture, within_long_side

_PAGE_ENDINGS = (".jpg", ".png", ".jpeg")
_MAX_OCR_BYTES = 16 * 1024 * 1024


@lru_cache(maxsize=8)
def _pdf_folder(folder: str) -> PdfFolder:
    return PdfFolder(folder, follows_links=True)


@dataclass(frozen=True, slots=True)
class PdfFile:
    """A PDF of a folder.

    Attributes:
        folder: The folder.
        name: Name of the file.
    """

    folder: str
    name: str

    @property
    def _document(self) -> Document:
        return _pdf_folder(self.folder).document(self.name)

    @property
    def digest(self) -> str:
        """Hash of the file's bytes."""
        return self._document.digest

    @property
    def num_pages(self) -> int:
        """How many pages.

        Raises:
            ToolError: If the file is missing, broken, encrypted or too large.
        """
        return self._document.num_pages

    def page_text(self, number: int) -> str:
        """Returns the text layer of a page, from 1."""
        return self._document.page_text(number)

    def page_picture(self, number: int, long_side_px: int = PAGE_LONG_SIDE_PX) -> Picture:
        """Returns a page, from 1."""
        return self._document.page_picture(number, long_side_px)


@dataclass(frozen=True, slots=True)
class PageFiles:
    """A document of page pictures, and of texts from OCR where there are any.

    Attributes:
        folder: The folder that holds `images/<page>.jpg` (or .png, .jpeg) and, if there is OCR, `ocr/<page>.json`:
            what Amazon Textract returned, whose `LINE` entries have a `Text`.
        name: What tools call it.
        pages: Names of the pages, in order.
    """

    folder: str
    name: str
    pages: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Hash of the files of its pages.

        Raises:
            ToolError: If a page's picture is missing or too large.
        """
        return _pages_digest(self)

    @property
    def num_pages(self) -> int:
        """How many pages."""
        return len(self.pages)

    def page_text(self, number: int) -> str:
        """Returns a page's lines as OCR read them; empty without OCR.

        Raises:
            ToolError: `PAGE_OUT_OF_RANGE`; `UNREADABLE_FILE` if the OCR file is none.
        """
        check_page_number(self, number)
        return _ocr_text(self.folder, self.pages[number - 1])

    def page_picture(self, number: int, long_side_px: int = PAGE_LONG_SIDE_PX) -> Picture:
        """Returns a page, scaled down if it is larger.

        Raises:
            ToolError: `PAGE_OUT_OF_RANGE`, or as `FileRoot.picture`.
        """
        check_page_number(self, number)
        page = self.pages[number - 1]
        return within_long_side(decode_image(_page_bytes(self.folder, page), name=page), long_side_px)


@lru_cache(maxsize=256)
def _pages_digest(document: PageFiles) -> str:
    content = hashlib.blake2b(digest_size=16)
    for page in document.pages:
        content.update(hashlib.blake2b(_page_bytes(document.folder, page), digest_size=16).digest())
    return content.hexdigest()


def _page_bytes(folder: str, page: str) -> bytes:
    """Returns the file of a page, whichever of the endings it has."""
    root = FileRoot(folder, follows_links=True)
    return root.read(page_file(root, page))


def page_file(root: FileRoot, page: str) -> str:
    """Returns the name of a page's picture, whichever of the endings it has.

    Raises:
        ToolError: If there is none, or it cannot be opened.
    """
    for ending in _PAGE_ENDINGS:
        name = f"images/{page}{ending}"
        try:
            with root.opened(name):
                return name
        except ToolError as error:
            if error.kind is not ToolErrorKind.UNKNOWN_FILE:
                raise
    raise ToolError(
        ToolErrorKind.UNKNOWN_FILE,
        f"There is no picture of the page {quoted(page)}: expected images/{page} with one of the endings "
        f"{', '.join(_PAGE_ENDINGS)}.",
    )


@lru_cache(maxsize=512)
def _ocr_text(folder: str, page: str) -> str:
    file = f"ocr/{page}.json"
    try:
        values = json.loads(FileRoot(folder, follows_links=True).read(file, max_bytes=_MAX_OCR_BYTES))
        lines = [line["Text"] for line in values.get("LINE", [])]
        return "\n".join(map(str, lines))[:MAX_PAGE_CHARS]
    except ToolError as error:
        if error.kind is ToolErrorKind.UNKNOWN_FILE:
            return ""
        raise
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError) as error:
        raise ToolError(
            ToolErrorKind.UNREADABLE_FILE, f"The file {quoted(file)} is no OCR of a page: {quoted(str(error))}."
        ) from error
