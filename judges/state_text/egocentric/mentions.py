"""What a text says of a thing in a home, as every reader of egocentric text returns it."""

from __future__ import annotations

from dataclasses import dataclass, field

from judges.state_text.grid.vocabulary import words_of

DIRECTIONS: dict[str, str] = {
    **dict.fromkeys(words_of("ahead forward forwards front frontward frontwards"), "ahead"),
    **dict.fromkeys(words_of("left leftward leftwards"), "left"),
    **dict.fromkeys(words_of("right rightward rightwards"), "right"),
    **dict.fromkeys(words_of("back behind rear backward backwards"), "back"),
}
"""Word to direction, one of the four that the world's state names."""


@dataclass(slots=True)
class ObjectMention:
    """One thing that a text speaks of.

    Attributes:
        name: What it is called, as lower-case letters only; empty where it has no name but "the target".
        is_target: Whether it is called the target.
        is_listed: Whether it stands in a list of visible objects.
        directions: The directions claimed for it.
        distances_m: The distances claimed for it, in metres.
    """

    name: str
    is_target: bool = False
    is_listed: bool = False
    directions: set[str] = field(default_factory=set)
    distances_m: set[float] = field(default_factory=set)
