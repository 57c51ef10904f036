"""What rows about documents have beside texts: names of files, pages, answers, Python literals."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from vlm_envs.errors import ConfigError
from vlm_envs.qa.datasets.rows import Fields, broken, text
from vlm_envs.responses.answers import AnswerKey, AnswerKind

MAX_LITERAL_CHARS = 20_000
"""Longest text that is read as a Python literal."""


def document_name(fields: Fields, name: str, where: str) -> str:
    """Returns a field that names a file inside the folder, in letters that may stand in a prompt."""
    value = text(fields, name, where)
    if not is_file_name(value):
        raise broken(where, f"as {name!r} a file inside the folder, without '..' or any of \\ : < >", value)
    return value


def is_file_name(name: str) -> bool:
    """Returns whether a text can name a file inside a folder."""
    return name.isprintable() and not set("\\:<>") & set(name) and name[:1] != "/" and ".." not in name.split("/")


def pages(value: object, name: str, where: str) -> tuple[int, ...]:
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


def answer_key(kind: AnswerKind, answers: Sequence[str], where: str) -> AnswerKey:
    """Returns a key; an answer that nothing could equal is the row's fault."""
    try:
        return AnswerKey(kind=kind, answers=tuple(answers))
    except ConfigError as error:
        raise broken(where, "an answer with letters or digits in it", list(answers)) from error
