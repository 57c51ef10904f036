"""How a text is cut into lines, paragraphs, sentences and words. Pure functions of the text; none raises for any text.

*Lines*: white space is stripped from both ends of every line; lines end where `str.splitlines` says.
*Paragraphs*: runs of lines that are not empty.
*Sentences*: of one paragraph each, so a blank line always ends a sentence; a single line break is a space. Found by
pysbd, which knows abbreviations, decimals, initials and numbered lists. It would keep a quotation, a bracket or what
stands between two dashes whole whatever is in it; Punkt does not, so all these marks are hidden from it and the
sentences inside are counted one by one, but for those between single quotation marks. `!` and `?` before a space always
end one.
*Words*: runs between white space (see `profiles.py` for what the two profiles strip first). Chinese, Japanese and
Thai have no spaces between words, so a run of their characters is one word.

White space is Unicode's (no-break, thin and ideographic spaces included). Zero-width spaces, joiners and
direction marks are not white space: they belong to the word they stand in. Nothing is normalised to NFC.

Sources: ARM-Thinker appendix E (paragraphs by blank lines, sentences by NLTK) and the public code of ARM-Thinker and
MM-IFEngine. Named deviations: pysbd in place of NLTK's Punkt, which needs a download; Punkt reads on over blank lines,
so a heading and the sentence below it are one sentence there and two here; Punkt counts `"1."` of a numbered
list and a lone emoji as sentences, here they belong to the sentence they stand beside. How often counts differ:
`docs/instruction-checkers.md`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from vlm_envs.tools.errors import require_package

MAX_PYSBD_CHARS = 100_000
"""Longer texts are cut at every sentence mark before a space; pysbd takes 0.3 to 4 s for as many characters."""

WINDOW_CHARS = 1_000
"""Most characters pysbd sees at once. Some of its patterns take quadratic time."""

_MARKS = ".!?…。！？．｡"
_MARKS_WITHOUT_SPACE = "。！？．｡"
"""Sentence marks of Chinese and Japanese: no space follows."""

_CLOSERS = "\"'”’»)]}*_`」』）】》"
"""What may stand between a sentence mark and the space after it; `*`, `_` and backquotes are Markdown's."""

# The first lookbehind lets a run of marks be read once, not from each of its marks again.
_SENTENCE_END = re.compile(
    rf"(?<![{_MARKS}])[{_MARKS}]++[{re.escape(_CLOSERS)}]*+(?:(?=\s)|(?<=[{_MARKS_WITHOUT_SPACE}]))"
)
_PYSBD_OWN = re.compile(r"[∯∮ȸȹ☉☈☇☄♨☝ƪ♟♝☏♬♭⎋✂⌬ᓰᓱᓳᓴᓷᓸ]")
"""Characters pysbd uses as marks of its own; in a text they would be read as punctuation."""

_REFERENCE = r"(?<=[.!?\"'”’)\]])\[[\d,\s–-]++\]"
"""Numbers in brackets behind the end of a sentence, which they belong to: `It is red.[1]`."""

_HIDDEN = re.compile(_REFERENCE + r'|["“”„«»()\[\]]|-{2,}+')
"""What pysbd never sees: it would not divide what stands between two quotation marks, brackets or dashes, as Punkt
does, and on long runs of references its own pattern for them takes exponential time."""

_CLOSING = re.compile(_REFERENCE + rf"|[{re.escape(_CLOSERS)}]")

_CALL = re.compile(r"(?<![!?])[!?]++[\"'”’»)\]}*]*+(?=\s)")
"""Where a sentence ends for Punkt whatever follows; pysbd reads on after `No!!!`, `Yahoo!` and `"Stop!"`."""


def lines_of(text: str) -> list[str]:
    """Returns the lines of a text, stripped; blank ones are empty strings."""
    return [line.strip() for line in text.splitlines()]


def cleaned(text: str) -> str:
    """Returns the text with every line, and the whole, stripped of white space at both ends."""
    return "\n".join(lines_of(text)).strip()


def paragraphs_of(text: str) -> tuple[str, ...]:
    """Returns the paragraphs of a text: cleaned lines, joined by newlines, between blank lines."""
    paragraphs: list[list[str]] = [[]]
    for line in lines_of(text):
        if line:
            paragraphs[-1].append(line)
        elif paragraphs[-1]:
            paragraphs.append([])
    return tuple("\n".join(lines) for lines in paragraphs if lines)


@lru_cache(maxsize=16)
def sentences_by_paragraph(text: str) -> tuple[tuple[str, ...], ...]:
    """Returns the sentences of each paragraph of a text, stripped.

    Args:
        text: Any string.

    Returns:
        Sentences in order, each with the letters and marks it has in the text. A piece without any letter or digit
        belongs to the sentence before it; a paragraph without any is one sentence.

    Raises:
        EngineUnavailableError: If pysbd is not installed and the text is not over `MAX_PYSBD_CHARS`.
    """
    find_ends = _ends_by_marks if len(text) > MAX_PYSBD_CHARS else _ends_by_pysbd
    return tuple(tuple(_cut(paragraph, find_ends(paragraph))) for paragraph in paragraphs_of(text))


def sentences_of(text: str) -> tuple[str, ...]:
    """Returns the sentences of all paragraphs of a text, as `sentences_by_paragraph` finds them."""
    return tuple(sentence for sentences in sentences_by_paragraph(text) for sentence in sentences)


def _cut(paragraph: str, ends: Iterator[int]) -> Iterator[str]:
    """Yields the stripped pieces of a paragraph between ends; one without letters or digits joins the one before."""
    start, end = 0, 0
    for next_end in (*ends, len(paragraph)):
        if any(map(str.isalnum, paragraph[end:next_end])) and any(map(str.isalnum, paragraph[start:end])):
            yield paragraph[start:end].strip()
            start = end
        end = next_end
    yield paragraph[start:].strip()


def _ends_by_marks(text: str) -> Iterator[int]:
    """Yields where sentences end by the plain rule: marks, closing quotes, then white space."""
    return (match.end() for match in _SENTENCE_END.finditer(text))


def _ends_by_pysbd(paragraph: str) -> Iterator[int]:
    """Yields where pysbd ends sentences, as positions in the paragraph, increasing."""
    start = 0
    while start < len(paragraph):
        limit = start + WINDOW_CHARS
        ends = _ends_in_window(paragraph[start:limit])
        yield from (start + end for end in ends)
        if limit >= len(paragraph):
            return
        # The window cuts its last sentence, so that one is read again from its start, unless it fills half the window.
        start = start + ends[-1] if ends and ends[-1] >= WINDOW_CHARS // 2 else limit


def _ends_in_window(window: str) -> list[int]:
    """Returns where pysbd ends sentences inside a window; by the plain rule where pysbd loses track of the text."""
    shadow = _PYSBD_OWN.sub("x", _HIDDEN.sub("", re.sub(r"\s", " ", window)))
    segmenter = _segmenter()
    try:
        # Not `segment`, which looks every sentence up in the text again and loses some of equal ones.
        pieces: list[str] = segmenter.processor(shadow).process() or []
    except Exception:  # pysbd builds patterns out of the text; its own faults must not make a check fail.
        return list(_ends_by_marks(window))
    if "".join("".join(pieces).split()) != "".join(shadow.split()):
        return list(_ends_by_marks(window))
    return _real_ends(window, [len("".join(piece.split())) for piece in pieces])


def _real_ends(window: str, lengths: list[int]) -> list[int]:
    """Returns the ends of pieces of given lengths, those within a word (a URL, `a!b`) left out, and all ends of calls.

    Args:
        window: The text.
        lengths: Characters of each piece, white space and what was hidden from pysbd left out.
    """
    hidden = {at for match in _HIDDEN.finditer(window) for at in range(*match.span())}
    visible = [at for at, character in enumerate(window) if at not in hidden and not character.isspace()]
    ends = [match.end() for match in _CALL.finditer(window)]
    num_seen = 0
    for length in lengths[:-1]:
        num_seen += length
        end = visible[num_seen - 1] + 1 if num_seen else 0
        while closing := _CLOSING.match(window, end):
            end = closing.end()
        if 0 < end < len(window) and (window[end].isspace() or window[end - 1] in _MARKS_WITHOUT_SPACE):
            ends.append(end)
    return sorted(set(ends))


@lru_cache(maxsize=1)
def _segmenter() -> Any:
    """Returns pysbd's segmenter for English, which also knows the marks of Chinese and Japanese."""
    with warnings.catch_warnings():
        # Compiled at its first import, as after `uv pip install`, it warns of escapes, which may be an error
        warnings.simplefilter("ignore")
        pysbd = require_package("pysbd", "Counting sentences")
    return pysbd.Segmenter(language="en", clean=False)
