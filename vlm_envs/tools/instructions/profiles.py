"""The two public definitions of the checks: what counts as a word, a match, a percentage, a number.

Both come from one family. MM-IFEngine (arXiv:2504.07957) defines the checks as functions, and its benchmark MM-IFEval
scores with them; ARM-Thinker (appendix E) offers them as tools, "following the checking schema of MM-IFEngine", with
its own definitions. Where paper and released code disagree, the code decides what a profile does, unless that makes
a check meaningless; `docs/instruction-checkers.md` lists every difference, every departure and its reason.

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
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from vlm_envs.errors import require_choice
from vlm_envs.tools.instructions.numerals import (
    DECIMAL_PERCENTAGES,
    DECIMALS,
    NUMBERS,
    PERCENTAGES,
    STANDALONE_DIGITS,
    STANDALONE_NUMBERS,
)
from vlm_envs.tools.instructions.segmentation import cleaned

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
