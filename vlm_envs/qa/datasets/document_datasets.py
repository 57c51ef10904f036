"""Datasets of questions about documents: MMLongBench-Doc, MP-DocVQA, and a folder of the user's PDF files.

The expected layout of each is described at its entry.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from vlm_envs.qa.datasets.dataset_rows import BrokenRowError, Row, category
from vlm_envs.qa.datasets.dataset_source import AnsweredRow, Copy, Dataset, opened, rows_by
from vlm_envs.qa.document_context import NOT_ANSWERABLE
from vlm_envs.qa.sample import Sample, cluster_id
from vlm_envs.responses.answers import AnswerKey, is_exact_text
from vlm_envs.responses.numbers import read_number
from vlm_envs.splits import SPLITS
from vlm_envs.tools.data_files import FileRoot, decode_image
from vlm_envs.tools.pdf_documents import MAX_PAGE_CHARS, PAGE_LONG_SIDE_PX, Document, PdfFolder, check_page_number
from vlm_envs.tools.pictures import Picture, within_long_side
from vlm_envs.tools.tool_errors import ToolError, ToolErrorKind, quoted

MAX_LITERAL_CHARS = 20_000
"""Maximum length of a text that is parsed as a Python literal."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentRow(AnsweredRow):
    """One question about a document.

    Attributes:
        document: The document.
        pages: Pages that contain the answer, from 1; empty if there are none, or if they are not annotated.
        has_exact_pages: Whether a page that the document does not have makes the row broken. Otherwise it is
            ignored, as in published data that users cannot correct.

    Raises:
        ConfigError: If the key cannot be part of an id.
    """

    document: Document
    pages: tuple[int, ...] = ()
    has_exact_pages: bool = True

    def __post_init__(self) -> None:
        """Rejects keys that are not valid in an id."""
        if not re.fullmatch(r"[\w.-]{1,80}", self.key):
            Row({}, self.where).broken("an id of letters, digits and _ . -", self.key)

    def sample(self, sample_id: str) -> Sample:
        """Returns the row as a sample, after opening its document."""
        try:
            num_pages, digest = self.document.num_pages, self.document.digest
        except ToolError as error:
            raise BrokenRowError(f"{self.where}: {error.message}") from error
        pages = tuple(page for page in self.pages if 1 <= page <= num_pages)
        if self.has_exact_pages and pages != self.pages:
            Row({}, self.where).broken(f"pages from 1 to the document's {num_pages}", list(self.pages))
        content = "\n".join((digest, self.answer.question, *self.answer.answers))
        return self.sample_of(
            sample_id,
            digest=hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest(),
            cluster=cluster_id("document", self.document.name),  # windows of a document share pages
            document=self.document,
            evidence_pages=pages,
            facts=f"The document says: {self.answer.answers[0]}." if pages else "",
        )


def document_name(row: Row, name: str) -> str:
    """Returns a field that names a file inside the folder, with characters that are safe in a prompt."""
    value = row.text(name)
    if not is_file_name(value):
        row.broken(f"as {name!r} a file inside the folder, without '..' or any of \\ : < >", value)
    return value


def is_file_name(name: str) -> bool:
    """Returns whether a text can name a file inside a folder."""
    return name.isprintable() and not set("\\:<>") & set(name) and name[:1] != "/" and ".." not in name.split("/")


def literal(row: Row, name: str) -> Any:
    """Returns the value of a Python literal in a text field, such as `"[5, 7]"`, without executing code."""
    value = row.text(name)
    try:
        if len(value) > MAX_LITERAL_CHARS:
            raise ValueError(f"more than {MAX_LITERAL_CHARS} characters")
        return ast.literal_eval(value)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        row.broken(f'a Python literal such as "[5, 7]" as {name!r}', value)


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
        """Number of pages.

        Raises:
            ToolError: If the file is missing, broken, encrypted, or too large.
        """
        return self._document.num_pages

    def page_text(self, number: int) -> str:
        """Returns the text layer of a page, from 1."""
        return self._document.page_text(number)

    def page_picture(self, number: int, long_side_px: int = PAGE_LONG_SIDE_PX) -> Picture:
        """Renders a page, from 1."""
        return self._document.page_picture(number, long_side_px)


@dataclass(frozen=True, slots=True)
class PageFiles:
    """A document of page images, with optional OCR texts.

    Attributes:
        folder: Folder with `images/<page>.jpg` (or .png, .jpeg) and optionally `ocr/<page>.json`: the output
            of Amazon Textract, whose `LINE` entries have a `Text`.
        name: Its name in tools.
        pages: Names of the pages, in order.
    """

    folder: str
    name: str
    pages: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Hash of the files of its pages.

        Raises:
            ToolError: If a page's image is missing or too large.
        """
        return _pages_digest(self)

    @property
    def num_pages(self) -> int:
        """Number of pages."""
        return len(self.pages)

    def page_text(self, number: int) -> str:
        """Returns a page's lines according to OCR; empty without OCR.

        Raises:
            ToolError: `PAGE_OUT_OF_RANGE`; `UNREADABLE_FILE` if the OCR file is not valid.
        """
        check_page_number(self, number)
        return _ocr_text(self.folder, self.pages[number - 1])

    def page_picture(self, number: int, long_side_px: int = PAGE_LONG_SIDE_PX) -> Picture:
        """Returns a page, scaled down if it is larger than `long_side_px`.

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
    """Returns the file of a page, with any of the supported extensions."""
    root = FileRoot(folder, follows_links=True)
    return root.read(page_file(root, page))


def page_file(root: FileRoot, page: str) -> str:
    """Returns the name of a page's image file, with any of the supported extensions.

    Raises:
        ToolError: If there is no such file, or it cannot be opened.
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


_MMLONGBENCH_FILE, _MMLONGBENCH_FOLDER = "samples.json", "documents"
_MMLONGBENCH_FORMATS = ("Int", "Float", "Str", "List", "None")
_MMLONGBENCH_TOLERANCE = 0.01
"""Relative tolerance of a float."""
_NO_ITEMS = ("[]", "empty list", "an empty list", "none")
"""Answers that mean an empty list."""


def _mmlongbench_row(copy: Copy, row: Row) -> DocumentRow:
    name, pages = document_name(row, "doc_id"), literal(row, "evidence_pages")
    if isinstance(pages, list):  # three published rows name page 0, which does not exist
        pages = [page for page in pages if type(page) is not int or page != 0]
    return DocumentRow(
        key=str(row.number + 1),
        where=row.where,
        split=copy.split_by(name),
        answer=_mmlongbench_key(row),
        category=_mmlongbench_category(row),
        document=PdfFile(f"{copy.root.folder}/{_MMLONGBENCH_FOLDER}", name),
        pages=row.page_numbers(pages, "evidence_pages"),
        has_exact_pages=False,
    )


def _mmlongbench_key(row: Row) -> AnswerKey:
    """Returns the key for the answer format of a row."""
    question, answer_format, given = row.text("question"), row.text("answer_format"), row.fields.get("answer")
    row.one_of("answer_format", _MMLONGBENCH_FORMATS)
    is_number = isinstance(given, int | float) and not isinstance(given, bool)  # may lack quotation marks
    if answer_format == "List":
        items = given if isinstance(given, list) or is_number else literal(row, "answer")
        if isinstance(items, int | float) and not isinstance(items, bool):
            items = [items]
        if not isinstance(items, list):
            row.broken("a list as 'answer'", items)
        if not items:
            return row.answer_key("exact", *_NO_ITEMS, question=question)
        return row.answer_key("list", json.dumps([*map(str, items)], ensure_ascii=False), question=question)
    answer = str(given) if is_number else row.text("answer")
    if answer_format == "None":
        return row.answer_key("exact", NOT_ANSWERABLE, "Unanswerable", "Cannot be answered", question=question)
    number = read_number(answer)
    if answer_format == "Int" and number is not None and number.is_integer():
        return row.answer_key("number", answer, question=question, tolerance=0.0)
    if answer_format == "Float" and number is not None:
        answers = _as_percentage(answer, number)
        return row.answer_key("number", *answers, question=question, tolerance=_MMLONGBENCH_TOLERANCE)
    return row.answer_key("exact" if is_exact_text(answer) else "anls", answer, question=question)


def _as_percentage(answer: str, number: float) -> tuple[str, str]:
    """Returns a number as written, and the equivalent percentage or fraction."""
    is_fraction = abs(number) <= 1 and "%" not in answer
    return answer, f"{100 * number:.10g}%" if is_fraction else f"{number / 100:.10g}"


def _mmlongbench_category(row: Row) -> str:
    """Returns the kind of evidence, such as `chart`; several kinds are one category."""
    if row.fields.get("answer_format") == "None":
        return "unanswerable"
    sources = literal(row, "evidence_sources") if row.fields.get("evidence_sources") else []
    if not isinstance(sources, list) or not all(isinstance(source, str) for source in sources):
        row.broken("a list of texts as 'evidence_sources'", sources)
    if not sources:
        return "other"
    return category(sources[0]) if len(sources) == 1 else "several_sources"


MMLONGBENCH_DOC = Dataset(
    expected=f"a folder with {_MMLONGBENCH_FILE} and the PDF files in a folder {_MMLONGBENCH_FOLDER}",
    files=lambda root: [_MMLONGBENCH_FILE] if Path(root.folder, _MMLONGBENCH_FOLDER).is_dir() else [],
    rows=rows_by(_mmlongbench_row),
    is_benchmark=True,
)
"""MMLongBench-Doc: questions about long PDF files, 20% without an answer.

The layout is that of the `data` folder in its repository: `samples.json`, a list of `doc_id` (a file name),
`question`, `answer`, `answer_format` and `evidence_pages` (a Python literal in a text), `evidence_sources`
(the same), and the PDF files in `documents/`; `doc_type` is ignored. It is a benchmark, so all of it is
`test`; with `is_benchmark=False` it is split by a hash of the document's name. Tested with all 1,082
published rows, but without their PDF files. The rows include an empty list as the right answer, one-item
lists without brackets, and evidence on page 0; pages that a document does not have are ignored.

Answers are compared by the rules in the benchmark's `eval/eval_score.py` for each format: integers must be
equal; floats have a tolerance of 1%, and a percentage equals its fraction; texts are compared by ANLS, except
that pages, dates in digits (`2024-05-06`), times with a.m. or p.m., URLs, `.py` and `.ipynb` files, telephone
numbers, and email addresses must be equal; lists are sorted and compared item by item, lists of numbers
exactly. As in the benchmark, dates in words ("May 6, 2024") and other files are compared by ANLS. Deviations:
no model shortens answers first, so numbers may be written in words and with a unit, a list without brackets
is split at commas, and any sentence that denies an answer is right if there is none; floats are not
additionally compared after rounding to two decimals; text in brackets counts.
"""


_MP_DOCVQA_FILES = tuple(f"{split}.json" for split in SPLITS)
_MP_DOCVQA_QUESTIONS = "question_answers"
"""Folder in the download that contains the question files."""


def _mp_docvqa_files(root: FileRoot) -> list[str]:
    return root.existing(_MP_DOCVQA_FILES) or root.existing(
        f"{_MP_DOCVQA_QUESTIONS}/{name}" for name in _MP_DOCVQA_FILES
    )


def _mp_docvqa_row(copy: Copy, row: Row) -> DocumentRow | None:
    split = row.file.rpartition("/")[2].removesuffix(".json")
    is_answered = split != "test" or row.fields.get("answers")
    return answered_row(row, copy.root.folder, split) if is_answered else None


@dataclass(frozen=True, kw_only=True, slots=True)
class PagesRow(DocumentRow):
    """One question about a range of pages."""

    document: PageFiles


def answered_row(row: Row, folder: str, split: str) -> PagesRow:
    """Returns a row of MP-DocVQA that has answers.

    Args:
        row: The row.
        folder: The folder of the download, with the page images in `images`.
        split: Split of the row.

    Raises:
        BrokenRowError: If it does not have the dataset's layout.
    """
    number = row.fields.get("questionId")
    if isinstance(number, bool) or not isinstance(number, int | str):
        row.broken("a number or a text as 'questionId'", number)
    pages, index = row.texts("page_ids"), row.whole("answer_page_idx")
    if not all(map(is_file_name, pages)):
        row.broken("as 'page_ids' files inside the folder, without '..' or any of \\ : < >", pages)
    if index >= len(pages):
        row.broken(f"an index of the {len(pages)} 'page_ids' as 'answer_page_idx'", index)
    return PagesRow(
        key=str(number),
        where=row.where,
        split=split,
        answer=row.answer_key("anls", *row.texts("answers"), question=row.text("question")),
        category="document",
        document=PageFiles(folder, document_name(row, "doc_id"), pages),
        pages=(index + 1,),
    )


MP_DOCVQA = Dataset(
    expected=f"a folder with any of {', '.join(_MP_DOCVQA_FILES)}, or a folder {_MP_DOCVQA_QUESTIONS} with them",
    files=_mp_docvqa_files,
    rows=rows_by(_mp_docvqa_row, under="data"),
)
"""MP-DocVQA: questions about ranges of up to 20 pages of scanned documents, as page images.

Not tested on the original data. The layout is that of its download: `train.json` and `val.json` (one of them
may be missing), in the folder or in its subfolder `question_answers`, each an object whose `data` is a list
of `questionId`, `question`, `doc_id`, `page_ids`, `answers`, `answer_page_idx`; images `images/<page
id>.jpg`. `test.json` is read if its rows have answers; the published ones have none and are omitted. Text is
searched if there is OCR (`ocr/<page id>.json`, Textract). The files define the splits. Answers are compared
by ANLS.
"""


_PDF_FILES = ("questions.jsonl", "questions.json")
_PDF_KINDS = ("anls", "exact", "number", "semantic")


def _pdf_row(copy: Copy, row: Row) -> DocumentRow:
    name = document_name(row, "document")
    kind: Any = row.one_of("kind", _PDF_KINDS) or "anls"
    return DocumentRow(
        key=str(row.number + 1),
        where=row.where,
        split=row.one_of("split", SPLITS) or copy.split_by(name),
        answer=row.answer_key(kind, *row.answer_texts(), question=row.text("question")),
        category=category(row.text("category")) if "category" in row.fields else "document",
        document=PdfFile(copy.root.folder, name),
        pages=row.page_numbers(row.fields.get("pages", []), "pages"),
    )


PDF_FOLDER = Dataset(
    expected=f"a folder of PDF files with {' or '.join(_PDF_FILES)}, one question per row",
    files=lambda root: root.existing(_PDF_FILES)[:1],
    rows=rows_by(
        _pdf_row,
        columns=("document", "question", "answer", "pages", "kind", "category", "split"),
        other_names={"label": "answer", "pdf": "document", "file": "document"},
    ),
    is_benchmark=False,
)
"""Any folder of PDF files with a file of questions.

The folder contains the PDF files and `questions.jsonl` (one object per line) or `questions.json` (a list of
objects) with the keys `document` (a file name), `question`, `answer` (a text, a number, or a list of accepted
ones), and, optionally, `pages` (those that contain the answer, from 1), `kind` (`anls` by default, `exact`,
`number` or `semantic`), `category` and `split`. Other columns are ignored and reported once; a misspelled one
breaks its row.

Questions without a split are split by a hash of the document's name, or are all `test` with
`is_benchmark=True`.
"""


DOCUMENT_DATASETS: Mapping[str, Dataset] = {
    "mp_docvqa": MP_DOCVQA,
    "mmlongbench_doc": MMLONGBENCH_DOC,
    "pdf_folder": PDF_FOLDER,
}

document_source = functools.partial(opened, DOCUMENT_DATASETS)
"""Returns the questions of a local copy of one of them; see `vlm_envs.qa.datasets.dataset_source.opened`."""
