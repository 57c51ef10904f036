"""What can go wrong between a client and its endpoint, and what can be done about each."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from agents.api.completion import TokenCounts

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
    """

    def __init__(self, reason: str, retry_after_s: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s


class SilentError(TransientError):
    """No whole reply came in time: whoever asks next may wait as long, in vain."""


class PermanentError(EndpointError):
    """One that the next attempt would meet again, such as a wrong key."""


def error_of_status(status: int, code: str | None, message: str, headers: Mapping[str, str]) -> EndpointError:
    """Returns the error of an HTTP status, classed by whether waiting helps.

    Args:
        status: 300 or more.
        code: The endpoint's own word for it, such as `insufficient_quota`.
        message: What it said, for the log.
        headers: Of the response, with lower-case names or a case-insensitive mapping.
    """
    said = one_line(message).removeprefix(f"Error code: {status}").removeprefix(" - ")  # The packages' own words for it
    if 300 <= status < 400:
        place = urlsplit(headers.get("location", ""))
        said = f"the address leads on to {place.netloc}{place.path}, where no key follows; if that is right, name it"
    reason = f"HTTP {status}{said and f': {said}'}"
    # A used-up account answers 429 like a busy one, but no wait of ours fills it.
    is_lasting = code == "insufficient_quota" or (status < 500 and status not in TRANSIENT_STATUSES)
    error = PermanentError(reason) if is_lasting else TransientError(reason, retry_after_s(headers))
    error.status = status
    return error


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
