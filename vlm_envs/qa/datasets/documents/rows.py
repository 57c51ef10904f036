"""What rows about documents have beside texts: names of files, pages, answers, Python literals."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

from vlm_envs.errors import ConfigError
from vlm_envs.qa.datasets.rows import Fields, broken, objects, read_json_file, read_json_lines, text
from vlm_envs.responses.answers import AnswerKey, AnswerKind
from vlm_envs.tools.files import FileRoot

MAX_LITERAL_CHARS = 20_000
"""Longest text that is read as a Python literal."""


def read_rows(root: FileRoot, file: str, *, under: str | None = None) -> Iterator[tuple[str, Fields]]:
    """Yields file and place of each row, and the row, of a `.jsonl` file or of a `.json` file that holds a list.

    Args:
        root: The folder.
        file: Name of the file.
        under: Key of the list, where a `.json` file holds an object around it.

    Raises:
        ConfigError: If the file cannot be read, or holds something else.
    """
    if file.endswith(".jsonl"):
        yield from read_json_lines(root, file)
        return
    values = read_json_file(root, file)
    if under is not None:
        values = values.get(under) if isinstance(values, dict) else None
    if not isinstance(values, list):
        raise broken(
            file, "a list of rows" if under is None else f"an object whose {under!r} is a list of rows", values
        )
    for number, value in enumerate(values, start=1):
        where = f"{file}, row {number}"
        yield where, objects(value, where)


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
