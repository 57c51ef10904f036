r"""Finds an answer in free model output and removes the markup around it. Nothing here raises, whatever the string.

Worlds with `reading="lenient"`, answer keys (`vlm_envs.responses.answers`), and episode rewards all read
through this module, so a world and a reward always agree on the content of a response.

Look-alikes of tags (`＜answer＞`) and tags with attributes are plain text. Only `sections`, which rewards use
to read formats, is case-sensitive.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

MAX_TEXT_CHARS = 100_000
"""Longer texts are rejected without being read, which bounds the time spent on them."""

MAX_LAYERS = 8
"""Maximum number of wrappers removed from a text; deeper ones stay."""

_BEGIN_BOX, _END_BOX = "<|begin_of_box|>", "<|end_of_box|>"
_BOXED = r"\boxed{"
_BRACES = re.compile(r"[{}]")
_END_OF_TURN = ("<|im_end|>", "<|endoftext|>", "<|end|>", "<|eot_id|>", "<end_of_turn>", "<eos>", "</s>")
_INFO_STRING = re.compile(r"[\w.+-]{0,20}[ \t]{0,4}\r?\n")
_LATEX_TEXT = re.compile(r"\\(?:text|textbf|textit|texttt|emph|mathrm|mathbf|mathit|mathsf|boldsymbol|mbox)\{")
_THOUGHT_TAG = re.compile(r"<(/?)(?:re)?think>", re.IGNORECASE)
_PUNCTUATION = ".,;:!?。．，；：！？"
_EDGES = " \t\r\n\f\v\u3000\xa0\u200b\u200c\u200d\u2060\ufeff"

_MAX_MARKS = 100
"""A text with more opening brackets or quotation marks of one kind is treated as not wrapped in them, which
bounds the time spent on it."""

_EMPTY = re.compile(r"[*_`$~]{4,}")
"""Empty wrappers."""
_RUNS = "*_`\"'$~"
"""Marks that wrap a text in equal runs, such as `**bold**`."""
_PAIRS = (
    *(("“", "”"), ("‘", "’"), ("«", "»"), ("‹", "›"), ("「", "」"), ("『", "』"), ("„", "“")),
    *((r"\(", r"\)"), (r"\[", r"\]")),
    *((f"<{tag}>", f"</{tag}>") for tag in ("b", "strong", "i", "em", "code")),
)
_BRACKETS = (("(", ")"), ("[", "]"), ("{", "}"), ("（", "）"), ("［", "］"), ("【", "】"))

_NOUN = r"(?:(?:the|my)\s)?(?:(?:correct|final|right|best)\s){0,2}(?:answer|option|choice)|(?:最终|正确)?答案"
_IS = r"\s(?:is|would\sbe)(?![a-z])|是|为"
_LEAD = re.compile(
    rf"(?:(?:so|thus|hence|therefore),?\s)?"
    rf"(?:(?P<mark>\*{{1,3}}|_{{1,3}}|`)(?:{_NOUN})(?:{_IS})?\s?[:：]?(?P=mark)(?:{_IS})?\s?[:：]?"
    rf"|(?:{_NOUN})(?:(?:{_IS})\s?[:：]?|\s?[:：]))\s*(?=\S)",
    flags=re.IGNORECASE,
)


def without_thoughts(text: str) -> str:
    """Returns the text of a response outside of `<think>…</think>` and `<rethink>…</rethink>`, ignoring case.

    A thought that is never closed extends to the end. A closing tag without an opening tag closes a thought
    that the chat template opened, so everything before it is part of the thought.
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
    return "\n".join(filter(None, outside))


def sections(text: str, tag: str) -> tuple[str, ...]:
    """Returns the contents of all complete `<tag>…</tag>` sections that contain no further `<tag>`, in order."""
    return tuple(inside for _, inside in _complete_sections(text, (tag,)))


def last_section(text: str, *tags: str) -> tuple[str, str] | None:
    """Returns the tag and the contents of the last complete section with one of some tags, ignoring case.

    None if there is none. A section that contains the opening tag of another one is not complete. Blank
    sections count only if all are blank.

    Args:
        text: Any string.
        tags: Names such as `"answer"`, in lower case.
    """
    found = [*_complete_sections(text, tags, re.IGNORECASE)]
    return next(reversed([section for section in found if section[1].strip()] or found), None)


def _complete_sections(text: str, tags: Iterable[str], flags: int = 0) -> Iterator[tuple[str, str]]:
    """Yields the tag, in lower case, and the contents of each complete section."""
    if len(text) > MAX_TEXT_CHARS:
        return
    opened: tuple[str, int] | None = None
    for match in re.finditer(rf"<(/?)({'|'.join(map(re.escape, tags))})>", text, flags):
        tag = match[2].lower()
        if not match[1]:
            opened = tag, match.end()
        elif opened is not None and opened[0] == tag:
            yield tag, text[opened[1] : match.start()]
            opened = None


def last_boxed(text: str) -> str | None:
    r"""Returns the contents of the last `\boxed{…}` or `<|begin_of_box|>…<|end_of_box|>`; None if there is none."""
    begin = text.rfind(_BEGIN_BOX, 0, max(text.rfind(_END_BOX), 0))
    command = text.rfind(_BOXED)
    if command > begin:
        inside = _balanced(text, command + len(_BOXED))
        if inside is not None:
            return inside
    return text[begin + len(_BEGIN_BOX) : text.index(_END_BOX, begin)] if begin >= 0 else None


def unwrap(text: str) -> str:
    r"""Returns a text without the markup around it: boxes, code fences and spans, bold, quotes, end-of-turn tokens.

    Only markup around the whole text is removed, except that a text with a box is reduced to its last box. A
    period after the markup is removed with it. At most `MAX_LAYERS` layers are removed; a text that is too
    long is returned unchanged.
    """
    if len(text) > MAX_TEXT_CHARS:
        return text
    text = _stripped(text)
    for _ in range(MAX_LAYERS):
        inside = _inside(text, _PAIRS)
        if inside is None:
            break
        text = _stripped(inside)
    return text


def readings(text: str, *, loosely: bool = False) -> tuple[str, ...]:
    r"""Returns the possible readings of an answer, from the unchanged text to the text without any markup.

    In addition to the markup that `unwrap` removes, brackets around the whole text (`[B]`) and leads (`Final
    answer:`) are layers. If a text has a box, only the box is read. With several readings, an answer that is
    itself code or a quotation can be compared unchanged, and a wrapped answer without its wrapper.

    Args:
        text: The answer.
        loosely: Whether marks at both ends count as a wrapper even if the same mark occurs between them, as
            in `*5*3*`.

    Returns:
        Distinct readings that are not empty, outermost first; empty for a text that is too long.
    """
    if len(text) > MAX_TEXT_CHARS:
        return ()
    boxed = last_boxed(text)
    text = _stripped(text if boxed is None else boxed)
    found = [text]
    for _ in range(MAX_LAYERS):
        inside = _inside(text, (*_PAIRS, *_BRACKETS))
        if inside is None and (lead := _LEAD.match(text)):
            inside = text[lead.end() :]
        if inside is None and loosely:
            inside = _between_marks(text) or _between_marks(text.rstrip(_PUNCTUATION))
        if inside is None:
            break
        text = _stripped(inside)
        found.append(text)
    return tuple(reading for reading in dict.fromkeys(found) if reading and not _EMPTY.fullmatch(reading))


def _stripped(text: str) -> str:
    """Returns a text without surrounding blanks and end-of-turn tokens."""
    text = text.strip(_EDGES)
    for _ in range(MAX_LAYERS):
        token = next((token for token in _END_OF_TURN if text.endswith(token)), None)
        if token is None:
            break
        text = text.removesuffix(token).rstrip(_EDGES)
    return text


def _inside(text: str, pairs: tuple[tuple[str, str], ...]) -> str | None:
    """Returns the text within its outermost wrapper; None if it has none."""
    if (boxed := last_boxed(text)) is not None:
        return boxed
    for body in dict.fromkeys((text, text.rstrip(_PUNCTUATION))):
        inside = _within_run(body) or _within_pair(body, pairs) or _within_command(body)
        if inside is not None:
            return inside
    return None


def _within_run(text: str) -> str | None:
    """Returns the text between equal runs of one mark, such as `**bold**`, quotation marks, or a code fence."""
    run, inside = _run_and_inside(text)
    if not inside or run in ("~", "~~"):
        return None
    if run[0] not in "`~" or len(run) < 3:
        return None if run in inside else inside
    info = _INFO_STRING.match(inside)
    inside = (inside[info.end() :] if info else inside).strip()
    is_nested = inside.startswith(run) and inside.endswith(run)
    return inside if is_nested or run not in inside else None


def _between_marks(text: str) -> str | None:
    """Returns the text between equal runs of one mark at both ends, whatever it contains."""
    run, inside = _run_and_inside(text)
    return None if run.startswith("~") else inside or None


def _run_and_inside(text: str) -> tuple[str, str]:
    """Returns the run of one mark at both ends of a text, and the text between; both may be empty."""
    mark = text[:1]
    if not mark or mark not in _RUNS:
        return "", ""
    length = min(len(text) - len(text.lstrip(mark)), len(text) - len(text.rstrip(mark)))
    return mark * length, text[length:-length] if length else ""


def _within_pair(text: str, pairs: tuple[tuple[str, str], ...]) -> str | None:
    """Returns the text after an opening mark that is closed at the end of the text and not before."""
    for opening, closing in pairs:
        is_wrapped = text.startswith(opening) and text.endswith(closing) and len(text) > len(opening + closing)
        if not is_wrapped or text.count(opening) > _MAX_MARKS:
            continue
        depth = 0
        for match in re.finditer(f"{re.escape(opening)}|{re.escape(closing)}", text):
            depth += 1 if match.group() == opening else -1
            if depth == 0 and match.end() < len(text):
                break
        else:
            return text[len(opening) : -len(closing)] if depth == 0 else None
    return None


def _within_command(text: str) -> str | None:
    r"""Returns the contents of a LaTeX command that is the whole text, such as `\text{…}`."""
    match = _LATEX_TEXT.match(text)
    inside = _balanced(text, match.end()) if match else None
    return inside if match and inside and match.end() + len(inside) + 1 == len(text) else None


def _balanced(text: str, start: int) -> str | None:
    depth = 1
    for match in _BRACES.finditer(text, start):
        depth += 1 if match.group() == "{" else -1
        if depth == 0:
            return text[start : match.start()]
    return None
