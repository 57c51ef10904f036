"""Strict reading of a judge model's reply: its one `<answer>…</answer>`, at the end, in exactly the asked form.

Everything else is unreadable, which is neither a yes nor a no: a reply that is guessed at would be a reward for
nothing. Reasoning may stand before the answer. A reply with two answers is unreadable, since one of them may be a
quotation of the text that is judged.
"""

import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

from agents.api.failures import UnreadableReplyError

MAX_REPLY_CHARS = 20_000
"""Longer replies are unreadable."""

_MAX_DIGITS = 18
_OPEN, _CLOSE = "<answer>", "</answer>"
_FENCE = re.compile(r"```(?:json)?\n(.*)\n```", re.DOTALL)
_SCORE = re.compile(r"[0-9](?:\.[0-9]{1,6})?")


def read_yes_no(reply: str) -> bool:
    """Read `<answer>YES</answer>` or `<answer>NO</answer>`.

    Source: VAGEN, appendix D.1.1, for the form.

    Args:
        reply: any string.

    Returns:
        Whether it is a yes; lower case is accepted.

    Raises:
        UnreadableReplyError: it is neither.
    """
    word = answer_of(reply)
    # `upper` would turn other scripts' letters into ours.
    if not word.isascii() or word.upper() not in ("YES", "NO"):
        raise UnreadableReplyError(f"expected YES or NO, got {word[:40]!r}")
    return word.upper() == "YES"


def read_score(reply: str, allowed: Sequence[float]) -> float:
    """Read one of a few numbers, such as 0.75.

    Args:
        reply: any string.
        allowed: the numbers that may be given.

    Returns:
        The one given.

    Raises:
        UnreadableReplyError: it is none of them.
    """
    text = answer_of(reply)
    if not _SCORE.fullmatch(text) or float(text) not in allowed:
        raise UnreadableReplyError(f"expected one of {', '.join(map(str, allowed))}, got {text[:40]!r}")
    return float(text)


def read_object(reply: str) -> dict[str, Any]:
    """Read a JSON object, bare or in one code fence.

    Args:
        reply: any string.

    Returns:
        The object: of JSON's types, with finite numbers, without a key that is there twice.

    Raises:
        UnreadableReplyError: it is no such object.
    """
    text = answer_of(reply)
    fenced = _FENCE.fullmatch(text)
    try:
        value = json.loads(
            fenced[1] if fenced else text,
            parse_constant=_refuse,
            parse_float=_finite,
            parse_int=_short_integer,
            object_pairs_hook=_without_repetition,
        )
    except (ValueError, RecursionError) as error:
        raise UnreadableReplyError(f"expected a JSON object: {str(error)[:80]}") from error
    if not isinstance(value, dict):
        raise UnreadableReplyError(f"expected a JSON object, got a {type(value).__name__}")
    return value


def answer_of(reply: str) -> str:
    """The inside of a reply's one answer tag, without the blanks around it.

    Args:
        reply: any string.

    Returns:
        What stands between `<answer>` and `</answer>`.

    Raises:
        UnreadableReplyError: there is not exactly one of each, the reply goes on after it, or it is too long.
    """
    if len(reply) > MAX_REPLY_CHARS:
        raise UnreadableReplyError(f"the reply has {len(reply)} characters, more than {MAX_REPLY_CHARS}")
    if reply.count(_OPEN) != 1 or reply.count(_CLOSE) != 1:
        counts = f"{reply.count(_OPEN)} {_OPEN} and {reply.count(_CLOSE)} {_CLOSE}"
        raise UnreadableReplyError(f"expected exactly one {_OPEN}…{_CLOSE}, got {counts}")
    inside, after = reply.split(_OPEN)[1].partition(_CLOSE)[::2]
    if _CLOSE in reply.split(_OPEN)[0] or after.strip():
        raise UnreadableReplyError(f"the reply does not end with its {_OPEN}…{_CLOSE}")
    return inside.strip()


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is no number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is too large")
    return number


def _short_integer(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise ValueError(f"an integer of {len(text)} digits is too long")
    return int(text)


def _without_repetition(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    pairs = list(pairs)
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a key is there twice")
    return dict(pairs)
