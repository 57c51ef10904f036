"""Names of things on a table, as sets of words: "red cube", "left target", "drawer handle"."""

from __future__ import annotations

import re
from dataclasses import dataclass

from judges.state_text.grid.vocabulary import words_of

Name = frozenset[str]
"""A thing's words in any order, such as {"red", "cube"}; synonyms are replaced and plurals undone."""

CUBE, DRAWER, OPEN = "cube", "drawer", "open"

_NOUNS = {
    **dict.fromkeys(words_of("cube block box"), CUBE),
    **dict.fromkeys(words_of("target goal region disc disk circle zone area"), "target"),
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
    """What a text says of one thing.

    Attributes:
        name: What the thing is called.
        value: x, y and z in mm, or one length in mm, such as how far a drawer stands open.
    """

    name: Name
    value: tuple[float, ...]


def noun_of(word: str) -> str | None:
    """Returns the kind of thing that a lower-case word names, singular or plural, or None."""
    return _NOUNS.get(word) or (_NOUNS.get(word.removesuffix("s")) if len(word) > 3 else None)


def name_of_key(key: str) -> Name:
    """Returns the name in a key of a dict: {"red", "cube"} for `red_cube_position`."""
    words = re.findall("[a-z]+", key.lower())
    return frozenset(noun_of(word) or word for word in words if word not in _NO_NAMES)
