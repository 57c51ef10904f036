"""Failures between a client and its endpoint: classification by status and error body, and whether retrying helps.

A request that exceeds a limit of the model (a full context, a content filter, too many or too large images)
gets an HTTP error, but repeating it would not help: the agent's episode ends, and its provider has not failed.
Everything that is not in the tables stays an error, including a server that does not support images.
docs/reference/agents.md shows the tables.
"""

from __future__ import annotations

import json
import math
import re
import time
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from agents.api.conversation import TokenCounts

TRANSIENT_STATUSES = frozenset({408, 409, 425, 429})
"""Statuses below 500 that may be transient; all from 500 on may be, too."""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """The result of a question that got no readable reply.

    Attributes:
        reason: The last failure, one line for logs.
    """

    reason: str


class UnreadableReplyError(ValueError):
    """A reply is not in the requested form; the message is the reason, for the log and for the second attempt."""


class EndpointError(Exception):
    """A request got no usable reply. It never leaves `agents.api`, where it becomes an `Unavailable`.

    Attributes:
        tokens: Tokens used in spite of the failure; None if none were counted.
        status: HTTP status of the endpoint's reply; None if there was no reply, or its status was a success.
    """

    tokens: TokenCounts | None = None
    status: int | None = None


class TransientError(EndpointError):
    """An error that a retry may resolve.

    Attributes:
        retry_after_s: Wait requested by the endpoint, in seconds; None if not specified.
        is_outage: Whether the endpoint is overloaded, failing, or unreachable, which may last minutes; otherwise the
            reply itself was unusable.
    """

    def __init__(self, reason: str, retry_after_s: float | None = None, *, is_outage: bool = False) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s
        self.is_outage = is_outage


class SilentError(TransientError):
    """No complete reply came in time; the next request may also wait in vain."""


class PermanentError(EndpointError):
    """An error that would recur at every attempt, such as a wrong key."""


class LimitError(PermanentError):
    """The request exceeds a limit of the model: its context, its content filter, or its images.

    Attributes:
        limit: Which limit, as a stop reason.
        said: The endpoint's complete message.
    """

    def __init__(self, reason: str, limit: Limit, said: str = "") -> None:
        super().__init__(reason)
        self.limit = limit
        self.said = said


def error_of_status(status: int, body: ErrorBody, headers: Mapping[str, str]) -> EndpointError:
    """Returns the error of an HTTP status, classified by whether waiting helps and whether a model limit was exceeded.

    Args:
        status: 300 or more.
        body: The endpoint's error body.
        headers: Of the response, with lower-case names or a case-insensitive mapping.
    """
    message = one_line(body.message)
    if 300 <= status < 400:
        target = urlsplit(headers.get("location", ""))
        message = f"the address redirects to {target.netloc}{target.path}: if it is right, use it instead of this one"
    reason = f"HTTP {status}{message and f': {message}'}"
    wait_s = retry_after_s(headers)
    is_rate_limit = wait_s is not None and any("rate_limit" in code for code in body.codes)  # Groq's has status 413
    is_transient = status >= 500 or status in TRANSIENT_STATUSES or is_rate_limit
    is_lasting = "insufficient_quota" in body.codes or not is_transient
    error: EndpointError
    if limit := limit_of(status, body.codes, body.message):
        error = LimitError(reason, limit, body.message)
    elif is_lasting:
        error = PermanentError(reason)
    else:
        error = TransientError(reason, wait_s, is_outage=True)
    error.status = status
    return error


def error_in_reply(body: ErrorBody) -> EndpointError:
    """Returns the error of a reply with a success status that contains an error."""
    message = one_line(body.message)
    if limit := limit_of(None, body.codes, body.message):
        return LimitError(message, limit, body.message)
    return TransientError(f"an error instead of a reply: {message}")


def no_connection(cause: BaseException) -> TransientError:
    """Returns the error of a connection that failed or broke."""
    return TransientError(f"no connection: {one_line(str(cause)) or type(cause).__name__}", is_outage=True)


def retry_after_s(headers: Mapping[str, str], now_s: float | None = None) -> float | None:
    """Returns the wait that a response requests, in seconds.

    Args:
        headers: `retry-after-ms`, or `retry-after` in seconds or as an HTTP date.
        now_s: Seconds since the epoch, to count a date from; the response's own `date` header takes precedence, because
            the endpoint's clock may differ from ours.

    Returns:
        At least 0, or None if nothing readable is requested. Never raises.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    asked = headers.get("retry-after")
    seconds = _number(asked)
    if seconds is not None:
        return seconds
    until_s, sent_s = _date_s(asked), _date_s(headers.get("date"))
    if until_s is None:
        return None
    if sent_s is None:
        sent_s = time.time() if now_s is None else now_s
    return max(0.0, until_s - sent_s)


def one_line(text: str, max_chars: int = 200) -> str:
    """Returns text of unknown origin for a log: printable, on one line, and shortened."""
    printable = "".join(char if char.isprintable() else " " for char in text[: 4 * max_chars])
    return " ".join(printable.split())[:max_chars]


def _number(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _date_s(value: str | None) -> float | None:
    try:
        return parsedate_to_datetime(value or "").timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


Limit = Literal["context", "content_filter"]
"""The stop reason of a response that a limit ended; too many or too large images count as context."""

STATUSES = frozenset({400, 413, 422})
"""HTTP statuses with which providers refuse such requests."""

_TABLES = tomllib.loads(Path(__file__).with_name("limits.toml").read_text(encoding="utf-8"))
CODES: dict[Limit, list[str]] = _TABLES["codes"]
"""Values of `code` or `type` in an error's body, case-insensitive."""

_OTHER_CODES = re.compile(
    r"rate.?limit|quota|billing|auth|permission|api_key|organization_|not_found|unsupported|max_tokens|^tokens$",
    re.IGNORECASE,
)
"""Codes of other errors, whose messages may contain the phrases of a limit: `invalid_max_tokens`, for example."""

PHRASES: dict[Limit, list[str]] = _TABLES["phrases"]
"""Patterns in an error's message, case-insensitive. `content_filter` is checked first."""

_WITHOUT_VISION = re.compile(
    r"(?:does not|doesn't|do not|cannot) (?:support|accept|process) (?:image|vision|multimodal)|not a multimodal model"
    r"|image input is not supported|at most 0 image|unsupported content type",
    re.IGNORECASE,
)
_OTHER_ERROR = re.compile(
    # A rate limit, or a value of `max_tokens` that no prompt could have
    r"tokens per min|\bTPM\b|rate.?limit"
    r"|(?:^|[.:;] )[`'\"]?max_(?:\w+_)?tokens[`'\"]?,? (?:must|should|cannot|has to)\b",
    re.IGNORECASE,
)
_KINDS: tuple[Limit, ...] = ("content_filter", "context")
_PATTERNS = {kind: re.compile("|".join(f"(?:{phrase})" for phrase in PHRASES[kind]), re.IGNORECASE) for kind in _KINDS}
_LENGTH = re.compile(r"(?:> |<= |length (?:is|of)(?: only)? )(\d+)")


def limit_of(status: int | None, codes: Collection[str], message: str) -> Limit | None:
    """Returns the limit of a model that a refusal reports; None if it is another error.

    Codes take precedence over phrases in the message, and a message may consist of a code.

    Args:
        status: HTTP status; None for an error inside a successful reply.
        codes: Values of `code` and `type` in the body.
        message: Message in the body.
    """
    if (status is not None and status not in STATUSES) or _WITHOUT_VISION.search(message):
        return None
    first_word = message.strip().partition(":")[0]
    lower_codes = {code.lower() for code in (*codes, first_word)}
    for kind in _KINDS:
        if not lower_codes.isdisjoint(code.lower() for code in CODES[kind]):
            return kind
    if any(_OTHER_CODES.search(code) for code in codes) or _OTHER_ERROR.search(message):
        return None
    return next((kind for kind in _KINDS if _PATTERNS[kind].search(message)), None)


def fits_without_response(message: str, max_tokens: int) -> bool:
    """Returns whether a refused prompt would have fit with a lower `max_tokens`.

    Servers that reserve `max_tokens` for the response name it in the message, along with the lengths of the prompt and
    the context. If that happens in the first turn, the setting cannot work: it is not a limit of the model.
    """
    numbers = {int(number) for number in re.findall(r"\d+", message)}
    length = _LENGTH.search(message)
    if max_tokens not in numbers or length is None:
        return False
    prompts = numbers - {max_tokens, int(length[1])}
    return any(prompt < int(length[1]) for prompt in prompts)


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
    """Returns the message and codes of an error's body. Never raises.

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
