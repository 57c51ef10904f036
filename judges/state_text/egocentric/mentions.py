"""What a text says of a thing in a home, as every reader of egocentric text returns it."""

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
class Mention:
    """One thing that a text speaks of.

    Attributes:
        name: what it is called, as lower-case letters only; empty where it has no name but "the target".
        is_target: whether it is called the target.
        is_listed: whether it stands in a list of visible objects.
        directions: the directions claimed for it.
        distances_m: the distances claimed for it, in metres.
    """

    name: str
    is_target: bool = False
    is_listed: bool = False
    directions: set[str] = field(default_factory=set)
    distances_m: set[float] = field(default_factory=set)
