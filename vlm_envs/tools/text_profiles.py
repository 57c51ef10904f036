r"""The two public definitions behind instruction checks: words, sentences, matches, percentages, numbers.

Both have the same origin. MM-IFEngine (arXiv:2504.07957) defines the checks as functions, which its benchmark
MM-IFEval uses for scoring; ARM-Thinker (appendix E) offers them as tools, "following the checking schema of
MM-IFEngine", with its own definitions. If paper and released code disagree, the profile follows the code,
unless that makes a check meaningless.

| what | `arm` | `mm_ifengine` |
|---|---|---|
| a word | a run between white space | the same after removing all but letters, digits, `_`, `.` and `-` |
| forbidden substrings | any case, in the cleaned text | exact case, in the unchanged text |
| beginnings, endings | any case; dots and `…` at both ends of text and substring are dropped | exact |
| sentences in each paragraph | lines instead, if the paragraph looks like a poem | sentences |
| a keyword that starts with `#` | may continue: `#sun` counts in `#sunset` | a whole word at its letter end |
| percentages | only `3.5%`: integers and `3.5 %` are not found | all; an integer has 0 decimals |
| numbers | only with a decimal point, also inside words | all that do not continue a word; integers have 0
decimals |
| arabic number | digits that are not part of a word | the same, but not before or after a period |

Both share the following: ranges are inclusive; paragraphs; sentences; keywords in any case; an empty text
satisfies requirements on each sentence or paragraph, since it has none.

Segmentation, for both (none of the functions raises for any text):

*Lines*: white space is stripped from both ends of every line; lines end as defined by `str.splitlines`.
*Paragraphs*: runs of lines that are not empty.
*Sentences*: of one paragraph each, so a blank line always ends a sentence; a single line break is a space.
Found by pysbd, which handles abbreviations, decimals, initials, and numbered lists. It would never split a
quotation, a bracket, or the text between two dashes; Punkt does, so all these marks are hidden from pysbd and
the sentences inside are counted individually, except those between single quotation marks. `!` and `?` before
a space always end a sentence.
*Words*: runs between white space (the profiles differ in what they strip first). Chinese, Japanese, and Thai
have no spaces between words, so a run of their characters is one word.

White space is Unicode's (including no-break, thin, and ideographic spaces). Zero-width spaces, joiners, and
direction marks are not white space: they are part of the word around them. Texts are not normalized to NFC.

Sources: ARM-Thinker appendix E (paragraphs by blank lines, sentences by NLTK) and the public code of
ARM-Thinker and MM-IFEngine. Deviations: pysbd replaces NLTK's Punkt, which needs a download; Punkt ignores
blank lines, so a heading and the sentence below it are one sentence there and two here; Punkt counts `"1."`
of a numbered list and a lone emoji as sentences, here they belong to the adjacent sentence. On 8,448
paragraphs that models wrote (the responses of VL-RewardBench), the counts differ in 1,155: in 999 because of
numbered lists, in 156 for other reasons, such as formulas, program code, and lettered options.

Other deviations from the public code, where a check would be meaningless otherwise: in `arm`, an ending that
consists of dots is compared, and only dots are dropped at the ends (the paper drops punctuation); keywords
such as `C++`, `#sun`, and `@me` are found; in `mm_ifengine`, integer percentages have a precision of 0, and
`3.50kg` has 2 decimals. One gap is kept because MM-IFEval is scored with it: in `mm_ifengine`, "no arabic
number" misses a number that ends a sentence.

Numbers: digits are those of every script (`\d`), including Arabic-Indic and full-width ones. Roman numerals,
circled digits, fractions, and numbers in words are not numbers. The decimal point is `.`, the percent sign is
`%`.

Patterns start only at the beginning of a run of digits and never backtrack into it (possessive quantifiers);
otherwise, a long run would take quadratic time. Only the last group after a comma may be given back, so that
`1,234,567x` is matched as `1,234` immediately.
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
        text: The number as written.
        num_decimals: Number of decimals; 0 for an integer.
    """

    text: str
    num_decimals: int


DECIMAL_PERCENTAGES = re.compile(r"(?<!\d)\d++\.(?P<decimals>\d++)%")
"""Percentages with a decimal point, directly followed by `%`: `3.5%`, not `5%` or `3.5 %`."""

PERCENTAGES = re.compile(r"(?<!\d)\d++(?:\.(?P<decimals>\d++))?+\s*+%")
"""All percentages, including integers and those with white space before `%`."""

DECIMALS = re.compile(r"(?<!\d)\d++\.(?P<decimals>\d++)")
"""Numbers with a decimal point anywhere, including `v1.25` and `3.5kg`. Integers are not matched."""

NUMBERS = re.compile(
    r"""(?<!\w)[+-]?
    (?:
        (?:\d{1,3}(?:,\d{3})+|\d++)?\.(?P<decimals>\d++)(?:[eE][+-]?\d++)?+      # 1,234.50, 0.5, .5, 1.5e-3, 3.5kg
        |(?:\d{1,3}(?:,\d{3})+|\d++)(?:[eE][+-]?\d++)?+(?!\w)                    # 1,234, 12, 5e10; not 12kg
    )""",
    re.VERBOSE,
)
"""All numbers that do not continue a word: signed, grouped by commas, `.5`, `1e-3`, integers."""

STANDALONE_DIGITS = re.compile(r"(?<!\w)\d++(?!\w)")
"""Runs of digits that are not part of a word: in `COVID-19` and `2024.`, not in `3D` or `2nd`."""

STANDALONE_NUMBERS = re.compile(r"(?<![.\w])\d++(?:\.\d++)?+(?:[eE][+-]?\d++)?+(?![.\w])")
"""Numbers surrounded by neither word characters nor periods, so not the last one of a sentence."""


def numerals(pattern: re.Pattern[str], text: str) -> tuple[Numeral, ...]:
    """Returns the matches of a pattern; its group `decimals`, if any, contains the decimals."""
    has_decimals = "decimals" in pattern.groupindex
    return tuple(
        Numeral(match.group(), len(match["decimals"] or "") if has_decimals else 0) for match in pattern.finditer(text)
    )


MAX_PYSBD_CHARS = 100_000
"""Longer texts are split at every sentence mark before a space; pysbd takes 0.3 to 4 s for this many
characters."""

WINDOW_CHARS = 1_000
"""Maximum number of characters passed to pysbd at once, because some of its patterns take quadratic time."""

_MARKS = ".!?…。！？．｡"
_MARKS_WITHOUT_SPACE = "。！？．｡"
"""Sentence marks of Chinese and Japanese, which are not followed by a space."""

_CLOSERS = "\"'”’»)]}*_`」』）】》"
"""Characters allowed between a sentence mark and the space after it; `*`, `_`, and backquotes are
Markdown's."""

# The first lookbehind matches a run of marks once, not again from each of its marks
_SENTENCE_END = re.compile(
    rf"(?<![{_MARKS}])[{_MARKS}]++[{re.escape(_CLOSERS)}]*+(?:(?=\s)|(?<=[{_MARKS_WITHOUT_SPACE}]))"
)
_PYSBD_OWN = re.compile(r"[∯∮ȸȹ☉☈☇☄♨☝ƪ♟♝☏♬♭⎋✂⌬ᓰᓱᓳᓴᓷᓸ]")
"""Characters that pysbd uses internally; in a text, it would interpret them as punctuation."""

_REFERENCE = r"(?<=[.!?\"'”’)\]])\[[\d,\s–-]++\]"
"""Numbers in brackets after the end of a sentence, which they belong to: `It is red.[1]`."""

_HIDDEN = re.compile(_REFERENCE + r'|["“”„«»()\[\]]|-{2,}+')
"""Text hidden from pysbd: unlike Punkt, it would not split text between two quotation marks, brackets, or
dashes, and on long runs of references its own pattern for them takes exponential time."""

_CLOSING = re.compile(_REFERENCE + rf"|[{re.escape(_CLOSERS)}]")

_CALL = re.compile(r"(?<![!?])[!?]++[\"'”’»)\]}*]*+(?=\s)")
"""Where a sentence always ends for Punkt; pysbd continues after `No!!!`, `Yahoo!` and `"Stop!"`."""


def lines_of(text: str) -> list[str]:
    """Returns the stripped lines of a text; blank ones are empty strings."""
    return [line.strip() for line in text.splitlines()]


def cleaned(text: str) -> str:
    """Strips white space from both ends of every line and of the whole text."""
    return "\n".join(lines_of(text)).strip()


def paragraphs_of(text: str) -> tuple[str, ...]:
    """Returns the paragraphs of a text: blocks of cleaned lines, joined by newlines, between blank lines."""
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
        Sentences in order, with the characters they have in the text. A piece without letters or digits
        belongs to the sentence before it; a paragraph without any is one sentence.

    Raises:
        EngineUnavailableError: If pysbd is not installed and the text is not longer than `MAX_PYSBD_CHARS`.
    """
    find_ends = _ends_by_marks if len(text) > MAX_PYSBD_CHARS else _ends_by_pysbd
    return tuple(tuple(_cut(paragraph, find_ends(paragraph))) for paragraph in paragraphs_of(text))


def sentences_of(text: str) -> tuple[str, ...]:
    """Returns the sentences of all paragraphs of a text, as found by `sentences_by_paragraph`."""
    return tuple(sentence for sentences in sentences_by_paragraph(text) for sentence in sentences)


def _cut(paragraph: str, ends: Iterator[int]) -> Iterator[str]:
    """Yields the stripped pieces of a paragraph between ends, merging pieces without letters or digits."""
    start, end = 0, 0
    for next_end in (*ends, len(paragraph)):
        if any(map(str.isalnum, paragraph[end:next_end])) and any(map(str.isalnum, paragraph[start:end])):
            yield paragraph[start:end].strip()
            start = end
        end = next_end
    yield paragraph[start:].strip()


def _ends_by_marks(text: str) -> Iterator[int]:
    """Yields the ends of sentences by the simple rule: marks, closing quotes, then white space."""
    return (match.end() for match in _SENTENCE_END.finditer(text))


def _ends_by_pysbd(paragraph: str) -> Iterator[int]:
    """Yields pysbd's ends of sentences as increasing positions in the paragraph."""
    start = 0
    while start < len(paragraph):
        limit = start + WINDOW_CHARS
        ends = _ends_in_window(paragraph[start:limit])
        yield from (start + end for end in ends)
        if limit >= len(paragraph):
            return
        # The window cuts its last sentence, so it is read again from its start unless it fills half the
        # window
        start = start + ends[-1] if ends and ends[-1] >= WINDOW_CHARS // 2 else limit


def _ends_in_window(window: str) -> list[int]:
    """Returns pysbd's ends of sentences inside a window, or those of the simple rule if pysbd alters the text."""
    shadow = _PYSBD_OWN.sub("x", _HIDDEN.sub("", re.sub(r"\s", " ", window)))
    segmenter = _segmenter()
    try:
        # Not `segment`, which searches the text for every sentence again and loses some duplicates
        pieces: list[str] = segmenter.processor(shadow).process() or []
    except Exception:  # pysbd builds patterns from the text; its bugs must not make a check fail
        return list(_ends_by_marks(window))
    if "".join("".join(pieces).split()) != "".join(shadow.split()):
        return list(_ends_by_marks(window))
    return _real_ends(window, [len("".join(piece.split())) for piece in pieces])


def _real_ends(window: str, lengths: list[int]) -> list[int]:
    """Returns the ends of pieces with given lengths, except ends within a word (a URL, `a!b`), and all ends of calls.

    Args:
        window: The text.
        lengths: Number of characters of each piece, without white space and text hidden from pysbd.
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
    """Returns pysbd's segmenter for English, which also handles Chinese and Japanese marks."""
    with warnings.catch_warnings():
        # When compiled on first import, as after `uv pip install`, it warns about escapes, which may be an
        # error
        warnings.simplefilter("ignore")
        pysbd = require_package("pysbd", "Counting sentences")
    return pysbd.Segmenter(language="en", clean=False)


POEM_MAX_LINE_CHARS = 60
"""Lines of a poem are shorter than this."""

_NOT_OF_A_WORD = re.compile(r"[^\w\s.-]")


@dataclass(frozen=True, kw_only=True)
class Profile:
    """One definition of the units and comparisons in the checks.

    Attributes:
        name: Its name.
        words: Returns the words of a text.
        searched: Returns the text to search for forbidden substrings.
        folded: Normalizes a text or substring before searching for substrings.
        edges: Normalizes a text and a substring before comparing a beginning or ending.
        units: Returns the units that checks of each paragraph's sentences count, and their name, given the
            paragraph and its sentences.
        open_hashtags: Whether a keyword that starts with `#` also counts if the word continues.
        percentages: Pattern of percentages.
        numbers: Pattern of numbers whose decimals are counted.
        arabic_numbers: Pattern of numbers that are forbidden if arabic numbers are.
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
        """Returns the number of non-overlapping mentions of a keyword, in any case, as whole words.

        If an end of the keyword is a letter, digit, or `_`, none of these may follow there; other ends are
        unrestricted, so `C++`, `#sun` and `@home` are found. Public code requires a word boundary at every
        end, which finds `C++` only in `C++x`; according to the paper, special characters are handled robustly.
        Takes time linear in the text.
        """
        folded_text, folded = text.lower(), keyword.lower()
        if folded not in folded_text:
            return 0
        is_open = self.open_hashtags and folded.startswith("#")
        before = r"(?<!\w)" if re.match(r"\w", folded) else ""
        after = r"(?!\w)" if re.search(r"\w\Z", folded) and not is_open else ""
        return sum(1 for _ in re.finditer(before + re.escape(folded) + after, folded_text))


def words_without_punctuation(text: str) -> list[str]:
    """Returns the runs between white space after removing all but letters, digits, `_`, `.` and `-`.

    Characters are removed, not replaced: `and/or` is one word; a dash `—` between spaces is not a word, but
    `-` is.
    """
    return _NOT_OF_A_WORD.sub("", text).split()


def outer_dots_dropped(text: str, substring: str) -> tuple[str, str]:
    """Returns text and substring in lower case, without white space, periods, and `…` at their ends.

    Paper: "light normalization that strips punctuation and ellipses from boundaries"; the code strips only
        dots, and so does this function, because otherwise an ending in `!` could not be required. Deviation:
        if nothing is left of the substring, the dots of both are kept, because otherwise every text would end
        with a required period.
    """
    text, substring = text.strip().lower(), substring.strip().lower()
    bare = substring.strip(".…").strip()
    return (text.strip(".…").strip(), bare) if bare else (text, substring)


def exact_edges(text: str, substring: str) -> tuple[str, str]:
    """Strips white space from the text's ends, and keeps the substring unchanged."""
    return text.strip(), substring


def sentences(paragraph: str, found: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Returns the sentences of a paragraph and their name."""
    return "sentences", found


def lines_or_sentences(paragraph: str, found: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Returns the lines of a paragraph that looks like a poem, or else its sentences, and their name."""
    return ("lines", tuple(paragraph.splitlines())) if is_poem(paragraph) else ("sentences", found)


def is_poem(paragraph: str) -> bool:
    """Returns whether a paragraph of cleaned lines looks like a poem, by ARM-Thinker's score.

    It has at least two lines, and the sum of 0.4 times the fraction of short lines, 0.4 times the fraction
    that ends with a dash, and 0.2 times the fraction with a space before that dash is above 0.6. A poem
    without dashes counts as prose.
    """
    lines = paragraph.splitlines()
    if len(lines) < 2:
        return False
    num_short = sum(len(line) < POEM_MAX_LINE_CHARS for line in lines)
    num_dashed = sum(line.endswith("-") for line in lines)
    num_spaced = sum(line.endswith(" -") for line in lines)
    # In the order of the original code: all lines short and half of them dashed gives 0.6000000000000001
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
"""Both profiles, by name."""


def profile_named(profile: str | Profile) -> Profile:
    """Returns a profile, given its name or itself.

    Raises:
        ConfigError: If there is no profile with that name.
    """
    return profile if isinstance(profile, Profile) else PROFILES[require_choice("profile", profile, PROFILES)]
