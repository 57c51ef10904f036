"""Turns without a readable action, and the reasons as messages."""

from __future__ import annotations

import re
from collections.abc import Iterable

from vlm_envs.records.json_lines import Record

_OF_STOPS = {
    "length": "the response was cut off at the token limit",
    "content_filter": "the model or its provider refused to answer",
    "context": "the request exceeded a limit of the model",
    "tool_call": "the model called a tool that it was not offered, and wrote no text",
}
_EXAMPLE = re.compile(
    r"(?<= does not begin with an action): (?P<quote>['\"]).*(?P=quote)(?=; expected )", flags=re.DOTALL
)
_QUOTED_ACTION = re.compile(r"^(?P<quote>['\"]).*(?P=quote) is not an action", flags=re.DOTALL)


def unread_turns(turns: Iterable[Record]) -> list[Record]:
    """Returns the turns whose response was out of the format and contained no readable action."""
    return [turn for turn in turns if turn["parse_error"] is not None and not turn["actions"]]


def why_unread(turn: Record) -> str:
    """Returns why a response could not be read, as a clause that follows "because".

    The clause quotes nothing from the response, so turns can be counted by it.
    """
    return _QUOTED_ACTION.sub("the answer does not begin with an action", _EXAMPLE.sub("", why_unread_exactly(turn)))


def why_unread_exactly(turn: Record) -> str:
    """Returns the same clause with the beginning of the answer, if that is the reason."""
    if reason := _OF_STOPS.get(turn["stop_reason"]):
        return reason
    if not turn["response"].strip():
        thought = bool(str(turn.get("thoughts") or "").strip())
        return "the response held only thoughts and no answer" if thought else "the response was empty"
    return str(turn.get("unread") or turn["parse_error"])
