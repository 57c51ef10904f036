"""Names of things on a table, as sets of words: "red cube", "left target", "drawer handle"."""

from __future__ import annotations

import re
from dataclasses import dataclass

from judges.state_text.grid.vocabulary import words_of

Name = frozenset[str]
"""A thing's words in any order, such as {"red", "cube"}; synonyms are replaced and plurals undone."""

CUBE, TARGET, DRAWER, OPEN = "cube", "target", "drawer", "open"

_NOUNS = {
    **dict.fromkeys(words_of("cube block box"), CUBE),
    **dict.fromkeys(words_of("target goal region disc disk circle zone area"), TARGET),
    **dict.fromkeys(words_of("drawer"), DRAWER),
    **dict.fromkeys(words_of("handle knob"), "handle"),
    **dict.fromkeys(words_of("cabinet gripper arm robot ball sphere peg apple bowl"), "other"),
}
PARTS = words_of("inside interior")
"""Words that are names only of a part of what they follow: "the drawer inside"."""

MODIFIERS = words_of(
    "red green yellow blue purple orange white black pink brown grey gray cyan magenta left right middle center centre"
)
_NO_NAMES = words_of("position positions pos coordinate coordinates location mm")


@dataclass(frozen=True, slots=True)
class MetricClaim:
    """A text's claim about one thing.

    Attributes:
        name: The thing's name.
        value: x, y and z in mm, or one length in mm, such as how far a drawer stands open; with a `spot`, its position
            or the thing's, and empty without one.
        spot: The name of the target that the thing lies at.
        is_near: The thing lies near its `spot`, not on it.
    """

    name: Name
    value: tuple[float, ...] = ()
    spot: Name | None = None
    is_near: bool = False


def noun_of(word: str) -> str | None:
    """Returns the kind of thing that a lower-case word names, singular or plural, or None."""
    return _NOUNS.get(word) or (_NOUNS.get(word.removesuffix("s")) if len(word) > 3 else None)


def name_of_key(key: str) -> Name:
    """Returns the name in a key of a dict: {"red", "cube"} for `red_cube_position`."""
    words = re.findall("[a-z]+", key.lower())
    return frozenset(noun_of(word) or word for word in words if word not in _NO_NAMES)


def is_key_word(word: str) -> bool:
    """Returns whether a lower-case word may stand in a key that has blanks in it, such as `red cube position`."""
    return noun_of(word) is not None or word in MODIFIERS | PARTS | _NO_NAMES | {OPEN, "held"}
