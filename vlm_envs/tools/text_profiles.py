r"""The two public definitions of what instruction checks count: words, sentences, matches, percentages, numbers.

Both come from one family. MM-IFEngine (arXiv:2504.07957) defines the checks as functions, and its benchmark MM-IFEval
scores with them; ARM-Thinker (appendix E) offers them as tools, "following the checking schema of MM-IFEngine", with
its own definitions. Where paper and released code disagree, the code decides what a profile does, unless that makes
a check meaningless.

| what | `arm` | `mm_ifengine` |
|---|---|---|
| a word | a run between white space | the same after all but letters, digits, `_`, `.` and `-` is removed |
| forbidden substrings | any case, in the cleaned text | exact case, in the text as it is |
| beginnings, endings | any case; dots and `…` at both ends of text and substring are dropped | exact |
| sentences in each paragraph | lines instead, where the paragraph looks like a poem | sentences |
| a keyword that starts with `#` | may go on: `#sun` counts in `#sunset` | a whole word at its letter end |
| percentages | only `3.5%`: whole ones and `3.5 %` are not seen | all; a whole one has 0 decimals |
| numbers | only with a decimal mark, inside words too | all that do not continue a word; whole ones have 0 decimals |
| arabic number | digits that are no part of a word | the same, but not before or after a full stop |

The same in both: ranges include both bounds; paragraphs; sentences; keywords in any case; an empty text satisfies what
is asked of each sentence or paragraph, since there is none.

How a text is segmented, for both; none of the functions raises for any text:

*Lines*: white space is stripped from both ends of every line; lines end where `str.splitlines` says.
*Paragraphs*: runs of lines that are not empty.
*Sentences*: of one paragraph each, so a blank line always ends a sentence; a single line break is a space. Found by
pysbd, which knows abbreviations, decimals, initials and numbered lists. It would keep a quotation, a bracket or what
stands between two dashes whole whatever is in it; Punkt does not, so all these marks are hidden from it and the
sentences inside are counted one by one, but for those between single quotation marks. `!` and `?` before a space always
end one.
*Words*: runs between white space (the profiles differ in what they strip first). Chinese, Japanese and
Thai have no spaces between words, so a run of their characters is one word.

White space is Unicode's (no-break, thin and ideographic spaces included). Zero-width spaces, joiners and
direction marks are not white space: they belong to the word they stand in. Nothing is normalised to NFC.

Sources: ARM-Thinker appendix E (paragraphs by blank lines, sentences by NLTK) and the public code of ARM-Thinker and
MM-IFEngine. Named deviations: pysbd in place of NLTK's Punkt, which needs a download; Punkt reads on over blank lines,
so a heading and the sentence below it are one sentence there and two here; Punkt counts `"1."` of a numbered
list and a lone emoji as sentences, here they belong to the sentence next to them. On 8,448 paragraphs that models wrote
(the responses of VL-RewardBench) the counts differ in 1,155: in 999 because of numbered lists, in 156 for other
reasons, such as formulas, program code, and lettered options.

Other departures from the public code, each because a check would mean nothing otherwise: in `arm`, an ending of dots
alone is compared, and only dots are dropped at the ends (the paper drops punctuation); keywords such as `C++`, `#sun`,
and `@me` are found; in `mm_ifengine`, whole percentages pass a precision of 0, and `3.50kg` has 2 decimals. One hole is
kept because MM-IFEval is scored with it: in `mm_ifengine`, "no arabic number" misses a number that ends a sentence.

Numbers: digits are those of every script (`\d`): Arabic-Indic and full-width ones too. Roman numerals, circled digits,
fractions and numbers in words are not numbers. The decimal mark is the full stop, the percent sign is `%`.

A pattern starts only where a run of digits starts and never gives digits of it back (possessive quantifiers), or a long
run would take quadratic time. Groups after commas are given back, one, so that `1,234,567x` is read as `1,234` at once.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from vlm_envs.tools.tool_errors import require_package
from vlm_envs.validation import require_choice


@dataclass(frozen=True)
class Numeral:
    """A number in a text.

    Attributes:
        text: As it is written.
        num_decimals: Digits after the decimal mark; 0 for a whole number.
    """

    text: str
    num_decimals: int


DECIMAL_PERCENTAGES = re.compile(r"(?<!\d)\d++\.(?P<decimals>\d++)%")
"""Percentages with a decimal mark and directly followed by `%`: `3.5%`, not `5%` nor `3.5 %`."""

PERCENTAGES = re.compile(r"(?<!\d)\d++(?:\.(?P<decimals>\d++))?+\s*+%")
"""All percentages, whole ones and those with white space before `%` too."""

DECIMALS = re.compile(r"(?<!\d)\d++\.(?P<decimals>\d++)")
"""Numbers with a decimal mark, wherever they stand: in `v1.25` and `3.5kg` too. Whole ones are left out."""

NUMBERS = re.compile(
    r"""(?<!\w)[+-]?
    (?:
        (?:\d{1,3}(?:,\d{3})+|\d++)?\.(?P<decimals>\d++)(?:[eE][+-]?\d++)?+      # 1,234.50, 0.5, .5, 1.5e-3, 3.5kg
        |(?:\d{1,3}(?:,\d{3})+|\d++)(?:[eE][+-]?\d++)?+(?!\w)                    # 1,234, 12, 5e10; not 12kg
    )""",
    re.VERBOSE,
)
"""All numbers that do not continue a word: signed, grouped by commas, `.5`, `1e-3`, whole ones too."""

STANDALONE_DIGITS = re.compile(r"(?<!\w)\d++(?!\w)")
"""Runs of digits that are no part of a word: of `COVID-19` and `2024.`, not of `3D` or `2nd`."""

STANDALONE_NUMBERS = re.compile(r"(?<![.\w])\d++(?:\.\d++)?+(?:[eE][+-]?\d++)?+(?![.\w])")
"""Numbers between characters that are neither of a word nor a full stop, so not the last of a sentence."""


def numerals(pattern: re.Pattern[str], text: str) -> tuple[Numeral, ...]:
    """Returns the matches of a pattern; its group `decimals`, if it has one, counts the decimals."""
    has_decimals = "decimals" in pattern.groupindex
    return tuple(
        Numeral(match.group(), len(match["decimals"] or "") if has_decimals else 0) for match in pattern.finditer(text)
    )


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


POEM_MAX_LINE_CHARS = 60
"""Lines of a poem are shorter than this."""

_NOT_OF_A_WORD = re.compile(r"[^\w\s.-]")


@dataclass(frozen=True, kw_only=True)
class Profile:
    """One definition of what the checks count and compare.

    Attributes:
        name: Its name.
        words: Words of a text.
        searched: The text in which forbidden substrings are looked for.
        folded: A text or substring as it is compared when substrings are looked for.
        edges: Text and substring as they are compared when a beginning or ending is asked for.
        units: What is counted where each paragraph's sentences are, from the paragraph and its sentences; and what
            that is called.
        open_hashtags: Whether a keyword that starts with `#` counts where the word goes on after it.
        percentages: Pattern of percentages.
        numbers: Pattern of numbers whose decimals are counted.
        arabic_numbers: Pattern of numbers that must not be there when no arabic number may be.
    """

    name: str
    words: Callable[[str], list[str]]
    searched: Callable[[str], str]
    folded: Callable[[str], str]
    edges: Callable[[str, str], tuple[str, str]]
    units: Callable[[str, tuple[str, ...]], tuple[str, tuple[str, ...]]]
    open_hashtags: bool
    percentages: re.Pattern[str]
    numbers: re.Pattern[str]
    arabic_numbers: re.Pattern[str]

    def count_keyword(self, text: str, keyword: str) -> int:
        """Returns how often a keyword is mentioned, in any case, as whole words, mentions not overlapping.

        No letter, digit or `_` may continue the keyword at an end that is one of these itself; the other ends are free,
        so `C++`, `#sun` and `@home` are found. Public code asks for a word boundary at every end, which finds `C++`
        only in `C++x`; the paper says that special characters are handled robustly. Takes time linear in the text.
        """
        folded_text, folded = text.lower(), keyword.lower()
        if folded not in folded_text:
            return 0
        is_open = self.open_hashtags and folded.startswith("#")
        before = r"(?<!\w)" if re.match(r"\w", folded) else ""
        after = r"(?!\w)" if re.search(r"\w\Z", folded) and not is_open else ""
        return sum(1 for _ in re.finditer(before + re.escape(folded) + after, folded_text))


def words_without_punctuation(text: str) -> list[str]:
    """Returns the runs between white space once all but letters, digits, `_`, `.` and `-` is removed.

    Removed, not replaced: `and/or` is one word, and a dash `—` between spaces is none, but `-` is.
    """
    return _NOT_OF_A_WORD.sub("", text).split()


def outer_dots_dropped(text: str, substring: str) -> tuple[str, str]:
    """Returns text and substring in lower case, without white space, full stops and `…` at their ends.

    Paper: "light normalization that strips punctuation and ellipses from boundaries"; the code strips dots only, and
    so do we, or an ending in `!` could not be asked for. Departure: where nothing is left of the substring, the dots
    of both stay, or every text would end with a required full stop.
    """
    text, substring = text.strip().lower(), substring.strip().lower()
    bare = substring.strip(".…").strip()
    return (text.strip(".…").strip(), bare) if bare else (text, substring)


def exact_edges(text: str, substring: str) -> tuple[str, str]:
    """Returns the text without white space at its ends, and the substring as it is."""
    return text.strip(), substring


def sentences(paragraph: str, found: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Returns the sentences found in a paragraph and what they are called."""
    return "sentences", found


def lines_or_sentences(paragraph: str, found: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Returns the lines of a paragraph that looks like a poem, of others the sentences; and what they are called."""
    return ("lines", tuple(paragraph.splitlines())) if is_poem(paragraph) else ("sentences", found)


def is_poem(paragraph: str) -> bool:
    """Returns whether a paragraph of cleaned lines looks like a poem, by ARM-Thinker's score.

    Of at least two lines: 0.4 of the share of short ones, 0.4 of those that end with a dash, and 0.2 of those with a
    space before that dash, is over 0.6 together. A poem without dashes is prose.
    """
    lines = paragraph.splitlines()
    if len(lines) < 2:
        return False
    num_short = sum(len(line) < POEM_MAX_LINE_CHARS for line in lines)
    num_dashed = sum(line.endswith("-") for line in lines)
    num_spaced = sum(line.endswith(" -") for line in lines)
    # In this order, as there: all lines short and half of them dashed comes to 0.6000000000000001.
    return num_short / len(lines) * 0.4 + num_dashed / len(lines) * 0.4 + num_spaced / len(lines) * 0.2 > 0.6


ARM = Profile(
    name="arm",
    words=str.split,
    searched=cleaned,
    folded=str.lower,
    edges=outer_dots_dropped,
    units=lines_or_sentences,
    open_hashtags=True,
    percentages=DECIMAL_PERCENTAGES,
    numbers=DECIMALS,
    arabic_numbers=STANDALONE_DIGITS,
)

MM_IFENGINE = Profile(
    name="mm_ifengine",
    words=words_without_punctuation,
    searched=str,
    folded=str,
    edges=exact_edges,
    units=sentences,
    open_hashtags=False,
    percentages=PERCENTAGES,
    numbers=NUMBERS,
    arabic_numbers=STANDALONE_NUMBERS,
)

PROFILES: dict[str, Profile] = {profile.name: profile for profile in (ARM, MM_IFENGINE)}
"""Both profiles by name."""


def profile_named(profile: str | Profile) -> Profile:
    """Returns a profile by its name, or as it is.

    Raises:
        ConfigError: If there is none of that name.
    """
    return profile if isinstance(profile, Profile) else PROFILES[require_choice("profile", profile, PROFILES)]
