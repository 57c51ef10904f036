"""Rows of document datasets: one question each, and the PDF file or page images that it is about."""

from __future__ import annotations

import ast
import hashlib
import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from vlm_envs.qa.datasets.dataset_rows import BrokenRowError, Fields, broken, text
from vlm_envs.qa.datasets.dataset_source import DatasetRow
from vlm_envs.qa.sample import Sample, cluster_id
from vlm_envs.responses.answers import AnswerKey, AnswerKind
from vlm_envs.tools.data_files import FileRoot, decode_image
from vlm_envs.tools.pdf_documents import MAX_PAGE_CHARS, PAGE_LONG_SIDE_PX, Document, PdfFolder, check_page_number
from vlm_envs.tools.pictures import Picture, within_long_side
from vlm_envs.tools.tool_errors import ToolError, ToolErrorKind, quoted

MAX_LITERAL_CHARS = 20_000
"""Longest text that is read as a Python literal."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentRow(DatasetRow):
    """One question about a document.

    Attributes:
        answer: The key; it knows the question.
        category: Kind of question.
        document: What it is about.
        pages: Pages that hold the answer, from 1; none where nobody annotated them, or nothing is there.
        has_exact_pages: Whether a page that the document does not have is the row's fault; otherwise it is left out,
            as in published data that nobody can correct.

    Raises:
        ConfigError: If the key is none that an id can hold.
    """

    answer: AnswerKey
    category: str
    document: Document
    pages: tuple[int, ...] = ()
    has_exact_pages: bool = True

    def __post_init__(self) -> None:
        """Refuses keys that would not stand on one line of their own."""
        if not re.fullmatch(r"[\w.-]{1,80}", self.key):
            raise broken(self.where, "an id of letters, digits and _ . -", self.key)

    @property
    def answer_kind(self) -> AnswerKind:
        """How answers are compared."""
        return self.answer.kind

    def sample(self, sample_id: str) -> Sample:
        """Returns the row as a sample; its document is opened."""
        try:
            num_pages, digest = self.document.num_pages, self.document.digest
        except ToolError as error:
            raise BrokenRowError(f"{self.where}: {error.message}") from error
        pages = tuple(page for page in self.pages if 1 <= page <= num_pages)
        if self.has_exact_pages and pages != self.pages:
            raise broken(self.where, f"pages from 1 to the document's {num_pages}", list(self.pages))
        content = "\n".join((digest, self.answer.question, *self.answer.answers))
        return Sample(
            sample_id=sample_id,
            question=self.answer.question,
            key=self.answer,
            category=self.category,
            digest=hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest(),
            cluster=cluster_id("document", self.document.name),  # windows of a document share pages
            document=self.document,
            evidence_pages=pages,
            facts=f"The document says: {self.answer.answers[0]}." if pages else "",
        )


def document_name(fields: Fields, name: str, where: str) -> str:
    """Returns a field that names a file inside the folder, in letters that may stand in a prompt."""
    value = text(fields, name, where)
    if not is_file_name(value):
        raise broken(where, f"as {name!r} a file inside the folder, without '..' or any of \\ : < >", value)
    return value


def is_file_name(name: str) -> bool:
    """Returns whether a text can name a file inside a folder."""
    return name.isprintable() and not set("\\:<>") & set(name) and name[:1] != "/" and ".." not in name.split("/")


def page_numbers(value: object, name: str, where: str) -> tuple[int, ...]:
    """Returns a list of page numbers, counted from 1, each once."""
    if not isinstance(value, list) or not all(type(page) is int and page >= 1 for page in value):
        raise broken(where, f"a list of page numbers from 1 as {name!r}", value)
    return tuple(dict.fromkeys(value))


def literal(fields: Fields, name: str, where: str) -> Any:
    """Returns the value of a field that is a Python literal in a text, such as `"[5, 7]"`; nothing is carried out."""
    value = text(fields, name, where)
    try:
        if len(value) > MAX_LITERAL_CHARS:
            raise ValueError(f"more than {MAX_LITERAL_CHARS} characters")
        return ast.literal_eval(value)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise broken(where, f'a Python literal such as "[5, 7]" as {name!r}', value) from error


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
