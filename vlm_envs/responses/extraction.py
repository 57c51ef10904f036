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
_END_OF_TURN = (*(f"<|{name}|>" for name in ("im_end", "endoftext", "end", "eot_id")), "<end_of_turn>", "<eos>", "</s>")
_FENCE = re.compile(r"(`{3,}|~{3,})[^\n`]*\n")
_MAX_LAYERS = 16
"""Layers of markup that are removed, which bounds the time spent on a text."""

_LATEX_TEXT = re.compile(r"\\(?:text|textbf|mathrm|mathbf)\{([^{}]*)\}")
_PAIRS = (("```", "```"), ("**", "**"), ("__", "__"), ("``", "``"), ("`", "`"), ("*", "*"), ("_", "_"))
_THOUGHT_TAG = re.compile(r"<(/?)(?:re)?think>", flags=re.IGNORECASE)
_QUOTE_PAIRS = (('"', '"'), ("'", "'"), ("“", "”"), ("‘", "’"), ("«", "»"), ("「", "」"))


def without_thoughts(text: str) -> str:
    """Returns what a response says outside of `<think>…</think>` and `<rethink>…</rethink>`, whatever the tags' case.

    A thought that is never closed runs to the end. A closing tag without its opening tag closes a thought that the chat
    template opened: everything before it is thought.
    """
    outside: list[str] = []
    start: int | None = 0  # of the text outside of thoughts; None inside one
    for match in _THOUGHT_TAG.finditer(text):
        if not match[1]:
            if start is not None:
                outside.append(text[start : match.start()])
            start = None
        else:
            if start is not None:
                outside.clear()
            start = match.end()
    if start is not None:
        outside.append(text[start:])
    return "\n".join(outside)


def last_section(text: str, *tags: str) -> str | None:
    """Returns the inside of the last complete `<tag>…</tag>`, of any of several tags; None without one.

    A section that holds the opening of a further one is not complete. The case of tags does not matter.
    """
    found = last_tagged_section(text, *tags)
    return None if found is None else found[1]


def last_tagged_section(text: str, *tags: str) -> tuple[str, str] | None:
    """Returns the tag, as it is given here, and the inside of what `last_section` finds; None without one."""
    found: tuple[str, str] | None = None
    opened: tuple[str, int] | None = None
    for match in re.finditer(rf"<(/?)({'|'.join(map(re.escape, tags))})>", text, flags=re.IGNORECASE):
        tag = next(each for each in tags if each.lower() == match[2].lower())
        if not match[1]:
            opened = tag, match.end()
        elif opened is not None and opened[0] == tag:
            found, opened = (tag, text[opened[1] : match.start()]), None
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
    text = text.strip()
    for _ in range(_MAX_LAYERS):
        if (inside := _inside(text)) is None:
            break
        text = inside.strip()
    return text


def _inside(text: str) -> str | None:
    """Returns the text within its outermost wrapper; None when it has none."""
    if token := next((token for token in _END_OF_TURN if text.endswith(token)), ""):
        return text.removesuffix(token)
    if (boxed := last_boxed(text)) is not None:
        return boxed
    if (fenced := _FENCE.match(text)) and text.endswith(fenced[1], fenced.end()):
        return text[fenced.end() : -len(fenced[1])]
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
