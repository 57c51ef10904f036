"""What there is to be right about in each world, its objects' names, and numbers as models write them.

A vocabulary is data. A new grid world is one more entry of `VOCABULARIES`; the readers and the scoring follow
from it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vlm_envs.errors import ConfigError

Cell = tuple[int, int]
"""(row, column), counted from zero at the top left."""

PLAYER = "player"
FRAME = "frame"
"""Kind of the words that name the surroundings; a place in them is no relation between objects."""

NUMBER = r"[-+]?(?:(?<!\d)\d++(?:\.\d*+)?(?:e[-+]?\d{1,4}\b)?|\.\d++|nan\b|inf(?:inity)?\b)"
"""Pattern of one number in lower-case text; it never begins inside a number, so a long one is read but once."""

_UNITS_M = {"m": 1.0, "meter": 1.0, "metre": 1.0, "cm": 0.01, "centimeter": 0.01, "centimetre": 0.01, "mm": 0.001}
_UNIT = rf"(?:(?:{'|'.join(_UNITS_M)})s?)\b"
LENGTH = rf"{NUMBER}[ -]?{_UNIT}|(?<!\d)\d++\.\d++"
"""Pattern of a length; a number without a unit is one only if it has decimals, and is then in metres."""

_GAP = r"\s{0,9}"
_COORDINATE = rf"{_GAP}(?:[\"']?[xyz][\"']?{_GAP}[=:]{_GAP})?[\"']?{NUMBER}{_GAP}(?:mm)?[\"']?{_GAP}"
_BRACKETED = rf"[(\[]{_COORDINATE},{_COORDINATE},{_COORDINATE}[)\]]"
_BARE = rf"(?<![\w.,(\[-])(?<!\d, ){NUMBER}{_GAP}(?:mm)?,{_COORDINATE},{_GAP}{NUMBER}(?![\d.]|{_GAP},{_GAP}[-\d])"
_BETWEEN = rf"{_GAP}(?:mm\b)?{_GAP}[,;]?{_GAP}(?:and\b)?{_GAP}"
_LABELED = "|".join(
    _BETWEEN.join(rf"[\"']?\b{axis}[\"']?{_GAP}[=:]?{_GAP}[\"']?{NUMBER}[\"']?" for axis in axes)
    for axes in itertools.permutations("xyz")
)
TRIPLE = rf"{_BRACKETED}|{_LABELED}|{_BARE}"
"""Pattern of a position in space: three numbers in brackets, after x, y and z, or with commas between them."""

_NUMBER = re.compile(NUMBER)
_LABEL = re.compile(r"\b[xyz]\b")
_LENGTH = re.compile(rf"({NUMBER})[ -]?({_UNIT})?")
_NUMBER_WORDS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9}
_NUMBER_WORD = re.compile(rf"\b({'|'.join(_NUMBER_WORDS)})(?=[ -]{_UNIT})")


@dataclass(frozen=True, kw_only=True, slots=True)
class Category:
    """One part of a state's score: every object of one kind.

    Attributes:
        name: The part's name in reports.
        kind: What its objects are called inside the judge, such as `box`.
        state_key: Where the world's state dict keeps them: one cell or a list of cells.
        weight: Share of the score, in (0, 1]; the weights of a vocabulary sum to 1.
        relative_to: The kinds that its objects are described against in natural language. Kinds other than
            the player must belong to an earlier category.
    """

    name: str
    kind: str
    state_key: str
    weight: float
    relative_to: tuple[str, ...] = (PLAYER,)


@dataclass(frozen=True, kw_only=True)
class ObjectVocabulary:
    """The vocabulary of one world.

    Attributes:
        categories: The parts of the score, those that others refer to first.
        words: Lower-case singular word to kind; plural forms are found by rule.
        symbols: Character of the symbolic grid to the kinds it stands for; empty for bare ground and walls.
    """

    categories: tuple[Category, ...]
    words: Mapping[str, str]
    symbols: Mapping[str, tuple[str, ...]]

    def __post_init__(self) -> None:
        """Checks that the weights are shares of one whole and that references point backwards."""
        total = sum(category.weight for category in self.categories)
        if abs(total - 1.0) > 1e-9:
            raise ConfigError(f"Category weights must sum to 1, they sum to {total}. Rescale them.")
        known = {PLAYER}
        for category in self.categories:
            if not known.issuperset(category.relative_to):
                raise ConfigError(
                    f"{category.name!r} is relative to {category.relative_to}, of which only "
                    f"{sorted(known)} are defined before it. Reorder the categories."
                )
            known.add(category.kind)

    def kind_of(self, word: str) -> str | None:
        """Returns the kind that a lower-case word names, singular or plural, or None."""
        if word in self.words:
            return self.words[word]
        # Shorter words are never plurals here, and "is" would be one of "i".
        stems = (word.removesuffix("s"), word.removesuffix("es")) if len(word) > 3 else ()
        return next((self.words[stem] for stem in stems if stem in self.words), None)

    def is_scored(self, subject: str, anchor: str) -> bool:
        """Returns whether "subject is … of anchor" is a fact of this vocabulary (its inverse is then one too)."""
        return any(c.kind == subject and anchor in c.relative_to for c in self.categories)


def words_of(line: str) -> frozenset[str]:
    """Returns a vocabulary written as one line of words."""
    return frozenset(line.split())


_PLAYER_WORDS = dict.fromkeys(words_of("player agent character elf you i me robot worker"), PLAYER)
_FRAME_WORDS = dict.fromkeys(
    words_of(
        "grid map board room image picture screen lake corner wall edge center centre border frame vocabulary "
        "puzzle maze floor"
    ),
    FRAME,
)
_TARGET_WORDS = dict.fromkeys(words_of("target goal destination"), "target")

VOCABULARIES: dict[str, ObjectVocabulary] = {
    "Sokoban": ObjectVocabulary(
        categories=(
            Category(name="box", kind="box", state_key="box_positions", weight=0.5),
            Category(
                name="target",
                kind="target",
                state_key="target_positions",
                weight=0.5,
                relative_to=(PLAYER, "box"),
            ),
        ),
        words=_PLAYER_WORDS | _FRAME_WORDS | _TARGET_WORDS | dict.fromkeys(words_of("box crate block"), "box"),
        symbols={
            "#": (),
            "_": (),
            "O": ("target",),
            "X": ("box",),
            "P": (PLAYER,),
            "*": ("box", "target"),
            "S": (PLAYER, "target"),
        },
    ),
    "FrozenLake": ObjectVocabulary(
        categories=(
            Category(name="goal", kind="target", state_key="target_position", weight=0.7),
            Category(name="holes", kind="hole", state_key="hole_positions", weight=0.3),
        ),
        words=_PLAYER_WORDS
        | _FRAME_WORDS
        | _TARGET_WORDS
        | dict.fromkeys(words_of("gift present flag"), "target")
        | dict.fromkeys(words_of("hole pit"), "hole"),
        symbols={
            "_": (),
            "O": ("hole",),
            "G": ("target",),
            "P": (PLAYER,),
            "X": (PLAYER, "hole"),
            "*": (PLAYER, "target"),
        },
    ),
}


def world_name(world: str) -> str:
    """Returns a world's name without namespace and version: `Sokoban` for `VLM/Sokoban-v0`, and for itself."""
    return re.sub(r"-v\d+$", "", world.rsplit("/", 1)[-1])


def cells_at(state: Mapping[str, Any], key: str) -> tuple[Cell, ...]:
    """Returns one entry of a state dict, a single cell or a sequence of cells, as a tuple of cells.

    Args:
        state: A world's state dict.
        key: Of the entry, such as `player_position`.

    Raises:
        ConfigError: The state has no such entry; it belongs to another world.
    """
    if key not in state:
        raise ConfigError(
            f"Expected a state with {key!r}, got the keys {sorted(state)}. Is this another world's state?"
        )
    value = state[key]
    cells = [value] if len(value) == 2 and not hasattr(value[0], "__len__") else value
    return tuple((int(row), int(column)) for row, column in cells)


def spell_digits(text: str) -> str:
    """Returns a text with number words before a unit of length as digits: `2 meters` for `two meters`."""
    return _NUMBER_WORD.sub(lambda match: str(_NUMBER_WORDS[match[1]]), text)


def first_number(text: str) -> float | None:
    """Returns the first number in lower-case text, or None without one; NaN and infinity are numbers."""
    match = _NUMBER.search(text)
    return float(match[0]) if match else None


def first_length_m(text: str) -> float | None:
    """Returns the first length in lower-case text, in metres unless a unit says otherwise; None without one."""
    match = _LENGTH.search(text)
    return float(match[1]) * _UNITS_M[(match[2] or "m").removesuffix("s")] if match else None


def length_m(text: str) -> float:
    """Returns what `LENGTH` matched, in metres."""
    length = first_length_m(text)
    assert length is not None, "every length has a number"
    return length


def position(text: str) -> tuple[float, float, float]:
    """Returns the numbers of what `TRIPLE` matched."""
    numbers, labels = list(map(float, _NUMBER.findall(text))), _LABEL.findall(text)
    if sorted(labels) == ["x", "y", "z"]:
        numbers = [numbers[labels.index(axis)] for axis in "xyz"]
    x, y, z = numbers
    return x, y, z
