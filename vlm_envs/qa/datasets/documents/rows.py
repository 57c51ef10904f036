"""Questions about one document each, and what their rows have beside texts: names of files, pages, literals."""

from __future__ import annotations

import ast
import hashlib
import re
from dataclasses import dataclass
from typing import Any

from vlm_envs.qa.datasets.rows import BrokenRowError, Fields, broken, text
from vlm_envs.qa.datasets.source import DatasetRow
from vlm_envs.qa.sample import Sample, cluster_id
from vlm_envs.responses.answers import AnswerKey, AnswerKind
from vlm_envs.tools.documents import Document
from vlm_envs.tools.errors import ToolError

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
