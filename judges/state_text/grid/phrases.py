"""Rewrites phrases that say one thing in many ways, so that the lexicon has to know one of them.

    at the position of the gift, at the gift's position, where the gift is, gets to the gift   ->  at the gift
    neither left nor right of                                                                  ->  same column of

Every pattern has bounded repetitions, so that time is linear in the text's length.
"""

from __future__ import annotations

import re

_PLACE = r"(?:position|location|place|spot|cell|square|tile|coordinates?)"
_AT_OR_TO = r"(?:at|in|on|into|onto|inside|to|reach|reaches|reached|occupy|occupies)"
_ARTICLE = r"(?:the|a|an|this|that)"
_END = r"(?=\s{0,3}(?:[.,;!?)]|and\b|but\b|\n|$))"
_TO_THE = r"(?:(?:to|on|at) )?(?:the )?"

_REWRITES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\bon top of\b"), "on"),
    # The object's place stands for the object.
    (re.compile(rf"\b({_AT_OR_TO}) (?:{_ARTICLE} )?(?:exact |very |same |current )?{_PLACE} of\b"), r"\1"),
    (
        re.compile(rf"\b({_AT_OR_TO}) ((?:{_ARTICLE} )?[a-z]{{1,20}}\d{{0,3}})'s? (?:exact |current )?{_PLACE}\b"),
        r"\1 \2",
    ),
    (re.compile(rf"\b({_AT_OR_TO}) (?:my|your|our) (?:exact |current )?{_PLACE}\b"), r"\1 me"),
    (
        re.compile(
            rf"\bwhere ((?:{_ARTICLE} )?[a-z]{{1,20}}(?: ?\d{{1,3}})?) (?:is|was|lies|sits|stands|will be)"
            rf"(?: located| now| currently)?{_END}"
        ),
        r"at \1",
    ),
    (re.compile(rf"\bwhere (?:i am|you are|we are){_END}"), "at me"),
    # Arriving is being there.
    (re.compile(rf"\b(?:get|gets|got|come|comes|came|make it|makes it) (?:back )?to (?={_ARTICLE} )"), "reach "),
)
_NEITHER = re.compile(
    rf"\bneither {_TO_THE}(above|below|left|right)(?: side)?,? nor {_TO_THE}(above|below|left|right)\b"
)
_SAME_LINE = {
    frozenset({"above", "below"}): "in the same row",
    frozenset({"left", "right"}): "in the same column",
}


def rewrite(text: str) -> str:
    """Returns lower-case text with those phrases rewritten."""
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    return _NEITHER.sub(lambda match: _SAME_LINE.get(frozenset(match.groups()), match[0]), text)
