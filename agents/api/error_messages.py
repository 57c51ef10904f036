"""Reads the message and the codes in the body of an endpoint's error, whatever its shape."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

_MESSAGES = ("message", "msg", "detail", "error", "errors", "error_description", "title")
_CODES = ("code", "type", "status")


class ErrorBody(NamedTuple):
    """The parts of an error's body that are used.

    Attributes:
        message: The message for people; the whole body if no part of it is a message.
        codes: Its machine-readable names for the error, such as `("insufficient_quota", "invalid_request_error")`;
            those of a provider's error that a gateway wraps come first.
    """

    message: str
    codes: tuple[str, ...] = ()


def read_error(body: Any, text: str = "") -> ErrorBody:
    """Returns the message and codes of an error's body. No body raises.

    Args:
        body: The parsed JSON; None if it is not JSON.
        text: The body as text, used if the JSON holds no message.

    Returns:
        The message of `{"error": {"message"}}`, `{"error": ""}`, `{"message"}`, `{"detail": ""}`,
        `{"detail": [{"loc", "msg"}]}`, and lists of these; else the text. If a gateway wraps a provider's error, as
        JSON in a message or in `metadata.raw`, the provider's message.
    """
    try:
        body = _unwrapped(_parsed(text) if body is None else body)
        message, codes = _message(body), tuple(_codes(body))
    except RecursionError:
        message, codes = "", ()
    if not message:
        message = text or ("" if body is None else str(body))
    return ErrorBody(message, codes)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _unwrapped(body: Any) -> Any:
    """Returns a body with the JSON in its texts parsed."""
    if isinstance(body, str) and body.lstrip().startswith(("{", "[")):
        inner = _parsed(body)
        return _unwrapped(inner) if _message(inner) else body
    if isinstance(body, Mapping):
        return {name: _unwrapped(part) for name, part in body.items()}
    return list(map(_unwrapped, body)) if isinstance(body, list) else body


def _message(body: Any) -> str:
    if isinstance(body, str):
        return body
    if isinstance(body, list):
        return "; ".join(filter(None, map(_message, body)))
    if not isinstance(body, Mapping):
        return ""
    for part in (_wrapped(body), *map(body.get, _MESSAGES)):
        if message := _message(part):
            path = body.get("loc") if message == body.get("msg") else None
            return f"{'.'.join(map(str, path))}: {message}" if isinstance(path, list) else message
    return ""


def _codes(body: Any) -> list[str]:
    """Returns the codes of the innermost error first."""
    if isinstance(body, list):
        return [code for part in body for code in _codes(part)]
    if not isinstance(body, Mapping):
        return []
    parts = (_wrapped(body), *(body.get(name) for name in ("message", "error", "detail", "errors")))
    inner = [code for part in parts for code in _codes(part)]
    return inner + [value for name in _CODES if isinstance(value := body.get(name), str)]


def _wrapped(body: Mapping[str, Any]) -> Any:
    """Returns the provider's error that a gateway such as OpenRouter wraps; None if there is none."""
    metadata = body.get("metadata")
    return metadata.get("raw") if isinstance(metadata, Mapping) else None
