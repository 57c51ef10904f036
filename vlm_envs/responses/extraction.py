r"""Finds an answer in free model output and removes the markup around it. Nothing here raises, whatever the string.

Worlds with `reading="lenient"`, answer keys (`vlm_envs.responses.answers`), and episode rewards all read through this
module, so a world and a reward cannot disagree about what a response says.
"""

from __future__ import annotations

import re

MAX_TEXT_CHARS = 100_000
"""Longer texts are refused unread, which bounds the time spent on them."""

_BEGIN_BOX, _END_BOX = "<|begin_of_box|>", "<|end_of_box|>"
_BOXED = r"\boxed{"
_BRACES = re.compile(r"[{}]")
_END_OF_TURN = re.compile(r"(?:\s*(?:<\|(?:im_end|endoftext|end|eot_id)\|>|<end_of_turn>|<eos>|</s>))+\s*$")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})[^\n`]*\n(.*?)\n?\s*\1\s*", flags=re.DOTALL)
_LATEX_TEXT = re.compile(r"\\(?:text|textbf|mathrm|mathbf)\{([^{}]*)\}")
_PAIRS = (("**", "**"), ("__", "__"), ("``", "``"), ("`", "`"), ("*", "*"), ("_", "_"))
_QUOTE_PAIRS = (('"', '"'), ("'", "'"), ("“", "”"), ("‘", "’"), ("«", "»"), ("「", "」"))


def without_thoughts(text: str) -> str:
    """Returns what a response says outside of `<think>…</think>`; a thought that is never closed runs to the end.

    A `</think>` without its opening tag closes a thought that the chat template opened.
    """
    after = text.rpartition("</think>")[2]
    return after.partition("<think>")[0]


def last_section(text: str, tag: str) -> str | None:
    """Returns the inside of the last complete `<tag>…</tag>` that holds no further `<tag>`; None without one."""
    found: str | None = None
    start: int | None = None
    for match in re.finditer(rf"<(/?){re.escape(tag)}>", text):
        if not match[1]:
            start = match.end()
        elif start is not None:
            found, start = text[start : match.start()], None
    return found


def last_boxed(text: str) -> str | None:
    r"""Returns the inside of the last `\boxed{…}` or `<|begin_of_box|>…<|end_of_box|>`; None without one."""
    end = text.rfind(_END_BOX)
    begin = text.rfind(_BEGIN_BOX, 0, max(end, 0))
    command = text.rfind(_BOXED)
    if command > begin:
        inside = _balanced(text, command + len(_BOXED))
        if inside is not None:
            return inside
    return text[begin + len(_BEGIN_BOX) : end] if begin >= 0 else None


def unwrap(text: str) -> str:
    r"""Returns a text without the markup around it: boxes, code fences and spans, bold, quotes, end-of-turn tokens.

    Only markup around the whole text counts, except that the last box in a text is all of it.
    """
    text = _END_OF_TURN.sub("", text).strip()
    while (inside := _inside(text)) is not None:
        text = inside.strip()
    return text


def _inside(text: str) -> str | None:
    """Returns the text within its outermost wrapper; None when it has none."""
    if (boxed := last_boxed(text)) is not None:
        return boxed
    if fenced := _FENCE.fullmatch(text):
        return fenced[2]
    if latex := _LATEX_TEXT.fullmatch(text):
        return latex[1]
    for opening, closing in (*_PAIRS, *_QUOTE_PAIRS):
        inside = text[len(opening) : -len(closing)]
        is_wrapped = len(text) > len(opening + closing) and text.startswith(opening) and text.endswith(closing)
        if is_wrapped and opening not in inside and closing not in inside:
            return inside
    return None


def _balanced(text: str, start: int) -> str | None:
    depth = 1
    for match in _BRACES.finditer(text, start):
        depth += 1 if match.group() == "{" else -1
        if depth == 0:
            return text[start : match.start()]
    return None
