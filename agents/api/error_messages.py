"""What an endpoint says in the body of an error, whatever its shape."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

_MESSAGES = ("message", "msg", "detail", "error", "errors", "error_description", "title")
_CODES = ("code", "type", "status")


class ErrorBody(NamedTuple):
    """The parts of an error's body that are used.

    Attributes:
        message: What it says, for people; the whole body where no part of it is a message.
        codes: Its machine-readable names for the error, such as `("insufficient_quota", "invalid_request_error")`.
    """

    message: str
    codes: tuple[str, ...] = ()


def read_error(body: Any, text: str = "") -> ErrorBody:
    """Returns what an error's body says. No body raises.

    Args:
        body: As JSON gives it; None if it is not JSON.
        text: The body as text, used where the JSON holds no message.

    Returns:
        The message of `{"error": {"message"}}`, `{"error": ""}`, `{"message"}`, `{"detail": ""}`,
        `{"detail": [{"loc", "msg"}]}`, and lists of these; else the text.
    """
    if body is None and text:
        try:
            body = json.loads(text)
        except (ValueError, RecursionError):
            body = None
    try:
        message, codes = _message(body), tuple(_codes(body))
    except RecursionError:
        message, codes = "", ()
    if not message:
        message = text or ("" if body is None else str(body))
    return ErrorBody(message, codes)


def _message(body: Any) -> str:
    if isinstance(body, str):
        return body
    if isinstance(body, list):
        return "; ".join(filter(None, map(_message, body)))
    if not isinstance(body, Mapping):
        return ""
    for name in _MESSAGES:
        if said := _message(body.get(name)):
            where = body.get("loc") if name == "msg" else None
            return f"{'.'.join(map(str, where))}: {said}" if isinstance(where, list) else said
    return ""


def _codes(body: Any) -> list[str]:
    """Returns the codes of the innermost error first."""
    if isinstance(body, list):
        return [code for part in body for code in _codes(part)]
    if not isinstance(body, Mapping):
        return []
    inner = [code for name in ("error", "detail", "errors") for code in _codes(body.get(name))]
    return inner + [value for name in _CODES if isinstance(value := body.get(name), str)]
