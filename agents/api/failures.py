"""What can go wrong between a client and its endpoint, and what can be done about each."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from agents.api.completion import TokenCounts
from agents.api.error_messages import ErrorBody
from agents.api.limits import Limit, limit_of

TRANSIENT_STATUSES = frozenset({408, 409, 425, 429})
"""Statuses below 500 that may pass by themselves; all from 500 on may, too."""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """The result of a question that got no readable reply.

    Attributes:
        reason: One line for logs: what happened last.
    """

    reason: str


class UnreadableReplyError(ValueError):
    """A reply is not in the asked form; the message says why, for the log and for the second attempt."""


class EndpointError(Exception):
    """A request got no usable reply. It never leaves `agents.api`: what leaves is an `Unavailable`.

    Attributes:
        tokens: What was taken for it all the same; None where nothing was counted.
        status: The HTTP status of the endpoint's reply; None where none came, or it was no refusal.
    """

    tokens: TokenCounts | None = None
    status: int | None = None


class TransientError(EndpointError):
    """One that may go well at the next attempt.

    Attributes:
        retry_after_s: How long the endpoint asked to wait, in seconds; None where it did not say.
        is_outage: Whether the endpoint is overloaded, failing, or out of reach, which may take minutes; else the reply
            itself was unusable.
    """

    def __init__(self, reason: str, retry_after_s: float | None = None, *, is_outage: bool = False) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s
        self.is_outage = is_outage


class SilentError(TransientError):
    """No whole reply came in time: whoever asks next may wait as long, in vain."""


class PermanentError(EndpointError):
    """One that the next attempt would meet again, such as a wrong key."""


class LimitError(PermanentError):
    """The request exceeds a limit of the model: its context, its content filter, or its images.

    Attributes:
        limit: Which limit, as a stop reason.
        said: The endpoint's whole message.
    """

    def __init__(self, reason: str, limit: Limit, said: str = "") -> None:
        super().__init__(reason)
        self.limit = limit
        self.said = said


def error_of_status(status: int, body: ErrorBody, headers: Mapping[str, str]) -> EndpointError:
    """Returns the error of an HTTP status, classed by whether waiting helps and whether the model's limits are met.

    Args:
        status: 300 or more.
        body: What the endpoint said.
        headers: Of the response, with lower-case names or a case-insensitive mapping.
    """
    message = one_line(body.message)
    if 300 <= status < 400:
        target = urlsplit(headers.get("location", ""))
        message = f"the address redirects to {target.netloc}{target.path}: if it is right, use it in place of this one"
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
    """Returns the error of a reply that succeeded by its status and holds an error."""
    message = one_line(body.message)
    if limit := limit_of(None, body.codes, body.message):
        return LimitError(message, limit, body.message)
    return TransientError(f"an error in place of a reply: {message}")


def no_connection(cause: BaseException) -> TransientError:
    """Returns the error of a connection that could not be made, or broke."""
    return TransientError(f"no connection: {one_line(str(cause)) or type(cause).__name__}", is_outage=True)


def retry_after_s(headers: Mapping[str, str], now_s: float | None = None) -> float | None:
    """Returns the wait that a response asks for, in seconds.

    Args:
        headers: `retry-after-ms`, or `retry-after` in seconds or as an HTTP date.
        now_s: Seconds since the epoch, to count a date from; the response's own `date` header wins over it, as the
            endpoint's clock need not be ours.

    Returns:
        At least 0, or None where nothing readable is asked for. No header raises.
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
    """Returns text of unknown origin for a log: printable, on one line, and not too long."""
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
