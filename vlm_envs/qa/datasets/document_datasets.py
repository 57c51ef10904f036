"""Datasets of questions about documents: MMLongBench-Doc, MP-DocVQA, and a folder of the user's PDF files.

The layout that each expects is described at its entry.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from vlm_envs.qa.datasets.dataset_rows import (
    BrokenRowError,
    Columns,
    Fields,
    answer_key,
    answer_texts,
    broken,
    category,
    checked_columns,
    each_row,
    one_of,
    text,
    texts,
    whole,
)
from vlm_envs.qa.datasets.dataset_source import Copy, Dataset, DatasetRow, opened
from vlm_envs.qa.document_context import NOT_ANSWERABLE
from vlm_envs.qa.sample import Sample, cluster_id
from vlm_envs.responses.answers import AnswerKey, AnswerKind, is_exact_text
from vlm_envs.responses.numbers import read_number
from vlm_envs.splits import SPLITS
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


_MMLONGBENCH_FILE, _MMLONGBENCH_FOLDER = "samples.json", "documents"
_MMLONGBENCH_FORMATS = ("Int", "Float", "Str", "List", "None")
_MMLONGBENCH_TOLERANCE = 0.01
"""How far a float may be off."""
_NO_ITEMS = ("[]", "empty list", "an empty list", "none")
"""What says that a list has no items."""


def _mmlongbench_rows(copy: Copy) -> Iterator[DocumentRow | BrokenRowError]:
    return each_row(copy.root, _MMLONGBENCH_FILE, partial(_mmlongbench_row, copy))


def _mmlongbench_row(copy: Copy, fields: Fields, where: str, number: int) -> DocumentRow:
    name = document_name(fields, "doc_id", where)
    return DocumentRow(
        key=str(number + 1),
        where=where,
        split=copy.split_by(name),
        answer=_mmlongbench_key(fields, where),
        category=_mmlongbench_category(fields, where),
        document=PdfFile(f"{copy.root.folder}/{_MMLONGBENCH_FOLDER}", name),
        pages=_mmlongbench_pages(fields, where),
        has_exact_pages=False,
    )


def _mmlongbench_pages(fields: Fields, where: str) -> tuple[int, ...]:
    """Returns the pages with evidence, from 1; page 0, which three published rows name, is none."""
    value = literal(fields, "evidence_pages", where)
    named = [page for page in value if type(page) is not int or page != 0] if isinstance(value, list) else value
    return page_numbers(named, "evidence_pages", where)


def _mmlongbench_key(fields: Fields, where: str) -> AnswerKey:
    """Returns the key that the format of the answer asks for."""
    question, answer_format = text(fields, "question", where), text(fields, "answer_format", where)
    if answer_format not in _MMLONGBENCH_FORMATS:
        raise broken(where, f"one of {', '.join(_MMLONGBENCH_FORMATS)} as 'answer_format'", answer_format)
    if answer_format == "List":
        items = [str(item) for item in _mmlongbench_items(fields, where)]
        if not items:
            return answer_key(where, "exact", *_NO_ITEMS, question=question)
        return answer_key(where, "list", json.dumps(items, ensure_ascii=False), question=question)
    answer = _mmlongbench_answer(fields, where)
    if answer_format == "None":
        return answer_key(where, "exact", NOT_ANSWERABLE, "Unanswerable", "Cannot be answered", question=question)
    number = read_number(answer)
    if answer_format == "Int" and number is not None and number.is_integer():
        return answer_key(where, "number", answer, question=question, tolerance=0.0)
    if answer_format == "Float" and number is not None:
        return answer_key(
            where, "number", *_as_percentage(answer, number), question=question, tolerance=_MMLONGBENCH_TOLERANCE
        )
    return answer_key(where, "exact" if is_exact_text(answer) else "anls", answer, question=question)


def _as_percentage(answer: str, number: float) -> tuple[str, str]:
    """Returns a number as it is written, and the percentage or fraction that is the same."""
    is_fraction = abs(number) <= 1 and "%" not in answer
    return answer, f"{100 * number:.10g}%" if is_fraction else f"{number / 100:.10g}"


def _mmlongbench_answer(fields: Fields, where: str) -> str:
    """Returns the answer. Numbers may stand without quotation marks."""
    value = fields.get("answer")
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if is_number else text(fields, "answer", where)


def _mmlongbench_items(fields: Fields, where: str) -> list[Any]:
    """Returns the items of a list; a number without brackets is one item."""
    value = fields.get("answer")
    items: Any = value if isinstance(value, list | int | float) else literal(fields, "answer", where)
    if isinstance(items, int | float) and not isinstance(items, bool):
        return [items]
    if not isinstance(items, list):
        raise broken(where, "a list as 'answer'", items)
    return items


def _mmlongbench_category(fields: Fields, where: str) -> str:
    """Returns where the evidence is, such as `chart`; several sources are one category."""
    if fields.get("answer_format") == "None":
        return "unanswerable"
    sources = literal(fields, "evidence_sources", where) if fields.get("evidence_sources") else []
    if not isinstance(sources, list) or not all(isinstance(source, str) for source in sources):
        raise broken(where, "a list of texts as 'evidence_sources'", sources)
    if not sources:
        return "other"
    return category(sources[0]) if len(sources) == 1 else "several_sources"


MMLONGBENCH_DOC = Dataset(
    expected=f"a folder with {_MMLONGBENCH_FILE} and the PDF files in a folder {_MMLONGBENCH_FOLDER}",
    files=lambda root: [_MMLONGBENCH_FILE] if Path(root.folder, _MMLONGBENCH_FOLDER).is_dir() else [],
    rows=_mmlongbench_rows,
    is_benchmark=True,
)
"""MMLongBench-Doc: questions about long PDF files, one in five without an answer.

The layout is that of the `data` folder of its repository: `samples.json`, a list of `doc_id` (a file name), `question`,
`answer`, `answer_format` and `evidence_pages` (a Python literal in a text), `evidence_sources` (the same), and the PDF
files in `documents/`; `doc_type` is ignored. It is a benchmark, so all of it is `test`; told that it is none, it is
divided by a hash of the document's name. All 1,082 published rows were read here, their PDF files were not at hand.
Among them are a list without items as the right answer, lists of one item without brackets, and evidence on page 0:
pages that a document does not have are left out.

Answers are compared by the rules of the benchmark's `eval/eval_score.py` for each format: whole numbers must be equal;
floats may be 1 % off, and a percentage and its fraction are one number; texts are compared by ANLS, except that pages,
dates in digits (`2024-05-06`), times with a.m. or p.m., URLs, `.py` and `.ipynb` files, telephone numbers, and email
addresses must be equal; lists are sorted and compared item by item, lists of numbers exactly. As in the benchmark,
dates in words ("May 6, 2024") and other files are compared by ANLS. Deviations: no model shortens answers first, so
numbers may be written in words and with a unit, a list without brackets is cut at commas, and any sentence that says
so is right where there is no answer; a float has no second reading that rounds to two decimals; text in brackets
counts.
"""


_MP_DOCVQA_FILES = tuple(f"{split}.json" for split in SPLITS)
_MP_DOCVQA_QUESTIONS = "question_answers"
"""Folder of the download that holds the files of questions."""


def _mp_docvqa_files(root: FileRoot) -> list[str]:
    return root.existing(_MP_DOCVQA_FILES) or root.existing(
        f"{_MP_DOCVQA_QUESTIONS}/{name}" for name in _MP_DOCVQA_FILES
    )


def _mp_docvqa_rows(copy: Copy) -> Iterator[DocumentRow | BrokenRowError]:
    for file in copy.files:
        split = file.rpartition("/")[2].removesuffix(".json")

        def row(fields: Fields, where: str, number: int, split: str = split) -> DocumentRow | None:
            return (
                answered_row(fields, where, copy.root.folder, split)
                if split != "test" or fields.get("answers")
                else None
            )

        yield from filter(None, each_row(copy.root, file, row, under="data"))


@dataclass(frozen=True, kw_only=True, slots=True)
class PagesRow(DocumentRow):
    """One question about a window of pages."""

    document: PageFiles


def answered_row(fields: Fields, where: str, folder: str, split: str) -> PagesRow:
    """Returns a row that has answers.

    Args:
        fields: What it holds.
        where: Its file and place, for messages.
        folder: The folder of the download, with the pages' pictures in `images`.
        split: Whose it is.

    Raises:
        BrokenRowError: If it is not what the data set's rows are.
    """
    number = fields.get("questionId")
    if isinstance(number, bool) or not isinstance(number, int | str):
        raise broken(where, "a number or a text as 'questionId'", number)
    pages = texts(fields, "page_ids", where)
    if not all(map(is_file_name, pages)):
        raise broken(where, "as 'page_ids' files inside the folder, without '..' or any of \\ : < >", pages)
    index = whole(fields, "answer_page_idx", where)
    if index >= len(pages):
        raise broken(where, f"an index of the {len(pages)} 'page_ids' as 'answer_page_idx'", index)
    return PagesRow(
        key=str(number),
        where=where,
        split=split,
        answer=answer_key(where, "anls", *texts(fields, "answers", where), question=text(fields, "question", where)),
        category="document",
        document=PageFiles(folder, document_name(fields, "doc_id", where), pages),
        pages=(index + 1,),
    )


MP_DOCVQA = Dataset(
    expected=f"a folder with any of {', '.join(_MP_DOCVQA_FILES)}, or a folder {_MP_DOCVQA_QUESTIONS} with them",
    files=_mp_docvqa_files,
    rows=_mp_docvqa_rows,
)
"""MP-DocVQA: questions about windows of up to 20 pages of scanned documents, as page pictures.

Not run on the original data here; the layout is that of its download: `train.json` and `val.json` (one of them may be
missing), in the folder or in its folder `question_answers`, each an object whose `data` is a list of `questionId`,
`question`, `doc_id`, `page_ids`, `answers`, `answer_page_idx`; pictures `images/<page id>.jpg`. `test.json` is read if
its rows have answers; the published ones have none and are left out. Text is searched if there is OCR
(`ocr/<page id>.json`, Textract). Splits are the data set's own. Answers are compared by ANLS.
"""


_PDF_FILES = ("questions.jsonl", "questions.json")
_PDF_KINDS = ("anls", "exact", "number", "semantic")
_PDF_COLUMNS = ("document", "question", "answer", "pages", "kind", "category", "split")
_PDF_OTHER_NAMES = {"label": "answer", "pdf": "document", "file": "document"}


def _pdf_rows(copy: Copy) -> Iterator[DocumentRow | BrokenRowError]:
    with checked_columns(copy.files[0], _PDF_COLUMNS, _PDF_OTHER_NAMES) as columns:
        yield from each_row(copy.root, copy.files[0], partial(_pdf_row, copy, columns))


def _pdf_row(copy: Copy, columns: Columns, fields: Fields, where: str, number: int) -> DocumentRow:
    columns.check(fields, where)
    name = document_name(fields, "document", where)
    kind: Any = one_of(fields, "kind", _PDF_KINDS, where) or "anls"
    return DocumentRow(
        key=str(number + 1),
        where=where,
        split=one_of(fields, "split", SPLITS, where) or copy.split_by(name),
        answer=answer_key(where, kind, *answer_texts(fields, where), question=text(fields, "question", where)),
        category=category(text(fields, "category", where)) if "category" in fields else "document",
        document=PdfFile(copy.root.folder, name),
        pages=page_numbers(fields.get("pages", []), "pages", where),
    )


PDF_FOLDER = Dataset(
    expected=f"a folder of PDF files with {' or '.join(_PDF_FILES)}, a question a row",
    files=lambda root: root.existing(_PDF_FILES),
    rows=_pdf_rows,
    is_benchmark=False,
)
"""Any folder of PDF files with a file of questions.

The folder holds the PDF files and `questions.jsonl` (one object per line) or `questions.json` (a list of objects) with
the keys `document` (a file name), `question`, `answer` (a text, a number, or a list of accepted ones), and, if wanted,
`pages` (those that hold the answer, from 1), `kind` (`anls` if left out, `exact`, `number` or `semantic`), `category`
and `split`. Other columns are not read and are reported once; a misspelled one breaks its row.

Questions that name no split are divided by a hash of the document's name; told that they are a benchmark, they are all
`test`.
"""


DOCUMENT_DATASETS: Mapping[str, Dataset] = {
    "mp_docvqa": MP_DOCVQA,
    "mmlongbench_doc": MMLONGBENCH_DOC,
    "pdf_folder": PDF_FOLDER,
}

document_source = functools.partial(opened, DOCUMENT_DATASETS)
"""Returns the questions of a user's copy of one of them; see `vlm_envs.qa.datasets.dataset_source.opened`."""
