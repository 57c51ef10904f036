"""Strict reading of a judge model's reply: its one `<answer>…</answer>`, at the end, in exactly the asked form.

Everything else is unreadable, which is neither a yes nor a no: a reply that is guessed at would be a reward for
nothing. Reasoning may stand before the answer. A reply with two answers is unreadable, since one of them may be a
quotation of the text that is judged.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from agents.api.failures import UnreadableReplyError
from vlm_envs.tools.tool_errors import ToolError
from vlm_envs.tools.tool_registry import read_json

MAX_REPLY_CHARS = 20_000
"""Longer replies are unreadable."""

_OPEN, _CLOSE = "<answer>", "</answer>"
_FENCE = re.compile(r"```(?:json)?\n(.*)\n```", re.DOTALL)
_SCORE = re.compile(r"[0-9](?:\.[0-9]{1,6})?")


def read_yes_no(reply: str) -> bool:
    """Returns whether a reply is `<answer>YES</answer>`, in upper or lower case, and not `<answer>NO</answer>`.

    Source: VAGEN, appendix D.1.1, for the form.

    Raises:
        UnreadableReplyError: It is neither.
    """
    word = answer_of(reply)
    # `upper` would turn other scripts' letters into ours.
    if not word.isascii() or word.upper() not in ("YES", "NO"):
        raise UnreadableReplyError(f"expected YES or NO, got {word[:40]!r}")
    return word.upper() == "YES"


def read_score(reply: str, allowed: Sequence[float]) -> float:
    """Returns the one of the allowed numbers, such as 0.75, that a reply gives.

    Raises:
        UnreadableReplyError: It is none of them.
    """
    text = answer_of(reply)
    if not _SCORE.fullmatch(text) or float(text) not in allowed:
        raise UnreadableReplyError(f"expected one of {', '.join(map(str, allowed))}, got {text[:40]!r}")
    return float(text)


def read_object(reply: str) -> dict[str, Any]:
    """Returns a reply's JSON object, bare or in one code fence: with finite numbers, and no key that is there twice.

    Raises:
        UnreadableReplyError: It is no such object.
    """
    text = answer_of(reply)
    fenced = _FENCE.fullmatch(text)
    try:
        value = read_json(fenced[1] if fenced else text)
    except ToolError as error:
        raise UnreadableReplyError(f"expected a JSON object: {str(error)[:80]}") from error
    if not isinstance(value, dict):
        raise UnreadableReplyError(f"expected a JSON object, got a {type(value).__name__}")
    return value


def answer_of(reply: str) -> str:
    """Returns what stands between a reply's one `<answer>` and `</answer>`, without the blanks around it.

    Raises:
        UnreadableReplyError: There is not exactly one of each, the reply goes on after it, or it is too long.
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
