"""Reads tags out of one piece of the model's own text. Nothing here raises, whatever the string.

Tags are matched as they are written, byte for byte: look-alikes (`＜answer＞`), upper case and tags with attributes
are plain text. A piece of more than `MAX_TEXT_CHARS` characters is refused unread.
"""

from __future__ import annotations

from vlm_envs.responses.extraction import MAX_TEXT_CHARS, sections
from vlm_envs.responses.formats import FORMATS
from vlm_envs.responses.parsing import ActionGrammar, parse_response

_ANY_ANSWER = ActionGrammar[str](parse=lambda text: text or None, separator="", expected="an answer")


def sole_section(text: str, tag: str) -> str | None:
    """Returns the inside of the one `<tag>…</tag>` of a piece; None when there is none, or more than one."""
    if text.count(f"<{tag}>") != 1 or text.count(f"</{tag}>") != 1:
        return None
    found = sections(text, tag)
    return found[0] if found else None


def think_then_answer(text: str) -> tuple[str, str] | None:
    """Returns the thought and the answer of a piece that is exactly `<think>…</think><answer>…</answer>`.

    White space between is allowed; None when anything else is in the piece, or the answer is empty.
    """
    parsed = parse_response(text, FORMATS["free_think"], _ANY_ANSWER, 1)
    return (parsed.sections["think"], parsed.sections["answer"]) if parsed.format_correct else None


def thoughts_of(text: str) -> str:
    """Returns what comes before the answer, tags included: the text in which boxes and reasoning are looked for.

    That is everything before the first `<answer>` after the last `</think>`; empty for a piece that is too long.
    """
    if len(text) > MAX_TEXT_CHARS:
        return ""
    after_think = text.rfind("</think>") + 1
    answer = text.find("<answer>", after_think)
    return text if answer < 0 else text[:answer]
