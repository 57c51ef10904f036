"""What a text says of a thing in a home, as every reader of egocentric text returns it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from judges.state_text.grid.vocabulary import words_of

DIRECTIONS: dict[str, str] = {
    **dict.fromkeys(words_of("ahead forward forwards front frontward frontwards"), "ahead"),
    **dict.fromkeys(words_of("left leftward leftwards"), "left"),
    **dict.fromkeys(words_of("right rightward rightwards"), "right"),
    **dict.fromkeys(words_of("back behind rear backward backwards"), "back"),
}
"""Word to direction, one of the four that the world's state names."""

DIAGONALS: dict[str, str] = {
    f"{primary}{side}": f"{primary} {side}" for primary in ("ahead", "back") for side in ("left", "right")
}
"""Word to a combined direction, the primary one first; `join_diagonals` writes these words into a text."""

_PRIMARY = r"(ahead|forwards?|in front|front|behind|back|backwards?)"
_SIDE = r"(left|right)(?:[ -](?:hand )?side)?"
_OF_ME = r"(?: (?:of )?(?:me|us|you|the player))?"
_BEFORE_SIDE = r"(?:(?:to|on|at|off to) )?(?:the |my |our |your )?"
_LAST_SIDE = rf", (?={_BEFORE_SIDE}{_SIDE.replace('(left', '(?:left')}\s{{0,3}}(?:[.;!?\n]|$))"
_PRIMARY_FIRST = re.compile(
    rf"\b(?<!slightly )(?:diagonally )?{_PRIMARY}{_OF_ME}(?:-| and | |{_LAST_SIDE}){_BEFORE_SIDE}{_SIDE}\b{_OF_ME}"
)
_SIDE_FIRST = re.compile(
    rf"\b(?<!slightly ){_SIDE}(?: and (?:in )?| ?- ?| (?=front\b))(ahead|forwards?|front|behind|back)\b"
)
_CLAUSE = re.compile(r",? ?(?:is|are|there|stands?|lies?|sits?|i|we|you)\b")
_SENTENCE_START = re.compile(r"(?:^|[.;!?\n:])[\s-]{0,3}(?:(?:to|on|in) )?(?:the |my |our )?$")


def join_diagonals(text: str) -> str:
    """Returns lower-case text with each combined direction as one word: `aheadleft` for "ahead and to the left"."""
    text = _PRIMARY_FIRST.sub(lambda match: _joined(match, match[1], match[2]), text)
    return _SIDE_FIRST.sub(lambda match: _joined(match, match[2], match[1]), text)


def _joined(match: re.Match[str], primary: str, side: str) -> str:
    text = match.string
    starts_clause = _CLAUSE.match(text, match.end()) or _CLAUSE.match(text, match.end() + 1)
    if starts_clause and not _SENTENCE_START.search(text, max(0, match.start() - 20), match.start()):
        # "It is ahead and to the left is a sofa": the second direction leads another clause.
        return match[0]
    return f"{DIRECTIONS[primary.removeprefix('in ')]}{side}"


def directions_in(text: str) -> set[str]:
    """Returns the directions that a short lower-case text names, such as the value of a dict."""
    words = re.findall("[a-z]+", join_diagonals(text))
    return {(DIRECTIONS | DIAGONALS)[word] for word in words if word in DIRECTIONS or word in DIAGONALS}


@dataclass(slots=True)
class ObjectMention:
    """One thing that a text speaks of.

    Attributes:
        name: What it is called, as lower-case letters only; empty where it has no name but "the target".
        is_target: Whether it is called the target.
        is_listed: Whether it stands in a list of visible objects.
        directions: The directions claimed for it; of a combined direction both, the primary one first.
        distances_m: The distances claimed for it, in metres.
    """

    name: str
    is_target: bool = False
    is_listed: bool = False
    directions: set[str] = field(default_factory=set)
    distances_m: set[float] = field(default_factory=set)
