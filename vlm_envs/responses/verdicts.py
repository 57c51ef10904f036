"""Verdicts on responses, as models write them: which of several is right, or whether a single one is.

Source: ARM-Thinker, figures 5 and 6: "Overall Judgment: True", "Overall Judgment: Answer 1 is better."; its released
code also takes a bare number, "preferred" and "slightly better". Case, white space, Markdown and punctuation, with
brackets and quotation marks (figure 5 has “True” in some), do not count.
Read strictly: every sentence must be a verdict, and all must be the same one, so what names two responses, hedges or
explains itself is no verdict.
"""

from __future__ import annotations

import re

_MARKDOWN = re.compile(r"[*`#>]|(?<![^\W_])_+|_+(?![^\W_])")
"""Emphasis, code, headings and quotations; the underscore of `resp_1` is none."""

_BRACKETS_AND_QUOTES = re.compile(r"[\[\](){}\"“”„«»‹›‘’]|(?<![^\W_])'|'(?![^\W_])")
_BETWEEN_SENTENCES = re.compile(r"(?<=[.!;])\s+|\n")

_LEAD = r"(?:(?:my |the )?(?:(?:overall|final) )?(?:judge?ment|verdict|decision|answer)(?: is)?\s*[:\-–—]?\s*)?"
_RESPONSE = r"(?:(?:the )?(?:answer|response|resp|option|candidate)[ _:]*)?"
_BETTER = (
    r"(?: is(?: the)?(?: slightly| clearly| much)? (?:better|best|right|correct|preferred)(?: one| answer| response)?)?"
)
_WHICH = re.compile(rf"{_LEAD}{_RESPONSE}(?P<verdict>[1-9]){_BETTER}")
_WHETHER = re.compile(rf"{_LEAD}(?P<verdict>true|false)")


def read_verdict(text: str) -> str | None:
    """Returns the number of a response, such as `"1"`, or `"true"` or `"false"`; None for no verdict, or several.

    Args:
        text: Case-folded, with single spaces, as `vlm_envs.responses.answers.normalise` returns it.
    """
    plain = " ".join(_BRACKETS_AND_QUOTES.sub(" ", _MARKDOWN.sub("", text)).split(" "))
    sentences = (" ".join(part.split()).strip(" .,:;!?") for part in _BETWEEN_SENTENCES.split(plain))
    found = {_verdict(sentence) for sentence in sentences if sentence}
    return found.pop() if len(found) == 1 else None


def _verdict(sentence: str) -> str | None:
    match = _WHICH.fullmatch(sentence) or _WHETHER.fullmatch(sentence)
    return match["verdict"] if match else None
