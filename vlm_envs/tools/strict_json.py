"""JSON as models write it, read strictly and within bounds: no duplicate keys, NaN, deep nesting or huge numbers."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from vlm_envs.tools.errors import ToolError, ToolErrorKind, quoted

MAX_JSON_CHARS = 20_000
MAX_JSON_DEPTH = 16
MAX_NUMBER_CHARS = 40
"""Most characters of one number; reading an integer takes time quadratic in its digits."""

# A string that never ends is taken to the end of the text, so no character is looked at twice.
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{\]}]', re.DOTALL)


def read_json(text: str) -> Any:
    """Reads one JSON value and nothing else.

    Args:
        text: Any string.

    Returns:
        The value; every number in it is finite, every string can be encoded as UTF-8.

    Raises:
        ToolError: `TOO_LARGE` for text, nesting or numbers beyond the limits, `DUPLICATE_KEY`, `MALFORMED_JSON`.
    """
    if len(text) > MAX_JSON_CHARS:
        raise ToolError(
            ToolErrorKind.TOO_LARGE,
            f"The JSON has {len(text)} characters, more than the {MAX_JSON_CHARS} that are read.",
        )
    _check_depth(text)
    try:
        value = json.loads(
            text,
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_number,
            parse_constant=_refuse_constant,
        )
        # Escapes can write half of a surrogate pair, which no text file, log or tokenizer could hold.
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except json.JSONDecodeError as error:
        near = quoted(text[max(0, error.pos - 10) : error.pos + 20])
        raise ToolError(
            ToolErrorKind.MALFORMED_JSON,
            f"This is not JSON: {error.msg} at character {error.pos + 1}, near {near}.",
        ) from error
    except UnicodeEncodeError as error:
        raise ToolError(ToolErrorKind.MALFORMED_JSON, "A string holds half of a surrogate pair.") from error
    return value


def _check_depth(text: str) -> None:
    """Refuses deep nesting before the reader recurses into it."""
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(text):
        token = match.group()
        depth += (token in ("[", "{")) - (token in ("]", "}"))
        if depth > MAX_JSON_DEPTH:
            raise ToolError(
                ToolErrorKind.TOO_LARGE, f"The JSON is nested more than {MAX_JSON_DEPTH} deep. Write it flat."
            )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns an object whose keys are all different."""
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise ToolError(ToolErrorKind.DUPLICATE_KEY, f"The key {quoted(key)} is given twice. Give each key once.")
        result[key] = value
    return result


def _integer(digits: str) -> int:
    _check_length(digits)
    return int(digits)


def _number(digits: str) -> float:
    _check_length(digits)
    number = float(digits)
    if not math.isfinite(number):
        raise ToolError(ToolErrorKind.TOO_LARGE, f"The number {quoted(digits)} is too large.")
    return number


def _check_length(digits: str) -> None:
    if len(digits) > MAX_NUMBER_CHARS:
        raise ToolError(
            ToolErrorKind.TOO_LARGE, f"A number has {len(digits)} characters, more than the {MAX_NUMBER_CHARS} allowed."
        )


def _refuse_constant(name: str) -> NoReturn:
    raise ToolError(ToolErrorKind.MALFORMED_JSON, f"{name} is no JSON number. Write a finite number.")
