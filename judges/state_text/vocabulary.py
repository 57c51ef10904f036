"""The scored categories of each grid world, its objects' names, and patterns of written numbers.

Vocabularies are data in `vocabulary.toml`. A new grid world needs only a new entry there for reading and scoring.
"""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from vlm_envs.responses.numbers import SMALL_NUMBERS
from vlm_envs.validation import require

_Meaning = TypeVar("_Meaning")

Cell = tuple[int, int]
"""(row, column), counted from zero at the top left."""

PLAYER = "player"
FRAME = "frame"
"""Kind of words that name the surroundings; a position in them is not a relation between objects."""

NUMBER = r"[-+]?(?:(?<!\d)\d++(?:\.\d*+)?(?:e[-+]?\d{1,4}\b)?|\.\d++|nan\b|inf(?:inity)?\b)"
"""Pattern of one number in lower-case text; it never starts inside a number, so a long one is read only once."""

_UNITS_M = {"m": 1.0, "meter": 1.0, "metre": 1.0, "cm": 0.01, "centimeter": 0.01, "centimetre": 0.01, "mm": 0.001}
_UNIT = rf"(?:(?:{'|'.join(_UNITS_M)})s?)\b"
LENGTH = rf"{NUMBER}[ -]?{_UNIT}|(?<!\d)\d++\.\d++"
"""Pattern of a length; a number without a unit must have decimals and is in meters."""

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
"""Pattern of a position in space: three numbers in brackets, after x, y, and z, or separated by commas."""

_NUMBER = re.compile(NUMBER)
_LABEL = re.compile(r"\b[xyz]\b")
_LENGTH = re.compile(rf"({NUMBER})[ -]?({_UNIT})?")
_NUMBER_WORD = re.compile(rf"\b({'|'.join(SMALL_NUMBERS[1:10])})(?=[ -]{_UNIT})")


def words_of(line: str) -> frozenset[str]:
    """Returns a vocabulary written as one line of words."""
    return frozenset(line.split())


def spread(meanings: Mapping[str, _Meaning]) -> dict[str, _Meaning]:
    """Returns the meaning of each word, given the meaning of each line of words."""
    return {word: meaning for line, meaning in meanings.items() for word in line.split()}


def singulars(word: str) -> tuple[str, ...]:
    """Returns a lower-case word and its possible singulars."""
    # Shorter words are never plurals here; "is" would be the plural of "i".
    stems = (word.removesuffix("s"), word.removesuffix("es")) if len(word) > 3 and word.endswith("s") else ()
    return (word, *stems)


@dataclass(frozen=True, slots=True)
class Category:
    """One part of a state's score: every object of one kind.

    Attributes:
        name: The part's name in reports.
        kind: Internal name of its kind of object, such as `box`.
        state_key: Their key in the world's state dict, which has one cell or a list of cells.
        weight: Share of the score, in (0, 1]; the weights of a vocabulary sum to 1.
        relative_to: The kinds that its objects are described against in natural language. Kinds other than
            the player must belong to an earlier category.
    """

    name: str
    kind: str
    state_key: str
    weight: float
    relative_to: Sequence[str] = (PLAYER,)


@dataclass(frozen=True, kw_only=True)
class ObjectVocabulary:
    """The vocabulary of one world.

    Attributes:
        categories: The parts of the score; a category precedes those that refer to it.
        words: Lower-case singular word to kind; plural forms are found by rule.
        symbols: Maps a character of the symbolic grid to the kinds it stands for; empty for bare ground and walls.
    """

    categories: tuple[Category, ...]
    words: Mapping[str, str]
    symbols: Mapping[str, Sequence[str]]

    def __post_init__(self) -> None:
        """Checks that the weights sum to 1 and that references point to earlier categories."""
        total = sum(category.weight for category in self.categories)
        require(abs(total - 1.0) <= 1e-9, f"Category weights must sum to 1, they sum to {total}. Rescale them.")
        known = {PLAYER}
        for category in self.categories:
            require(known.issuperset(category.relative_to), f"{category} precedes its anchors. Reorder the categories.")
            known.add(category.kind)

    def kind_of(self, word: str) -> str | None:
        """Returns the kind that a lower-case word names, singular or plural, or None."""
        return next((self.words[stem] for stem in singulars(word) if stem in self.words), None)

    def is_scored(self, subject: str, anchor: str) -> bool:
        """Returns whether "subject is … of anchor" is a fact of this vocabulary (its inverse is then one too)."""
        return any(c.kind == subject and anchor in c.relative_to for c in self.categories)


def word_at(words: Sequence[str], position: int) -> str:
    """Returns the word at a position; an empty string if it is out of range."""
    return words[position] if 0 <= position < len(words) else ""


def rewriter(replacements: Mapping[str, str]) -> Callable[[str], str]:
    """Returns a function that replaces patterns in a text, in order."""
    compiled = [(re.compile(pattern), replacement) for pattern, replacement in replacements.items()]

    def rewrite(text: str) -> str:
        for pattern, replacement in compiled:
            text = pattern.sub(replacement, text)
        return text

    return rewrite


def load_table(module: str) -> dict[str, Any]:
    """Returns the contents of a module's TOML file, which has the same path except for the suffix."""
    return tomllib.loads(Path(module).with_suffix(".toml").read_text(encoding="utf-8"))


def _vocabularies() -> dict[str, ObjectVocabulary]:
    worlds = load_table(__file__)
    shared = worlds.pop("shared_words")
    return {
        name: ObjectVocabulary(
            categories=tuple(Category(**category) for category in world["categories"]),
            words=spread(shared | world["words"]),
            symbols=world["symbols"],
        )
        for name, world in worlds.items()
    }


VOCABULARIES = _vocabularies()


def world_name(world: str) -> str:
    """Returns a world's name without namespace and version: `Sokoban` for `VLM/Sokoban-v0`, and for itself."""
    return re.sub(r"-v\d+$", "", world.rsplit("/", 1)[-1])


def cells_at(state: Mapping[str, Any], key: str) -> tuple[Cell, ...]:
    """Returns one entry of a state dict, a single cell or a sequence of cells, as a tuple of cells.

    Args:
        state: A world's state dict.
        key: Of the entry, such as `player_position`.

    Raises:
        ConfigError: The state has no such entry, as it is from another world.
    """
    require(
        key in state, f"Expected a state with {key!r}, got the keys {sorted(state)}. Is this another world's state?"
    )
    value = state[key]
    cells = [value] if len(value) == 2 and not hasattr(value[0], "__len__") else value
    return tuple((int(row), int(column)) for row, column in cells)


def plain_text(text: str) -> str:
    """Returns a text in lower case with straight apostrophes."""
    return text.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")


def spell_digits(text: str) -> str:
    """Returns a text with number words before a unit of length as digits: `2 meters` for `two meters`."""
    return _NUMBER_WORD.sub(lambda match: str(SMALL_NUMBERS.index(match[1])), text)


def first_number(text: str) -> float | None:
    """Returns the first number in lower-case text, or None without one; NaN and infinity are numbers."""
    match = _NUMBER.search(text)
    return float(match[0]) if match else None


def lengths_m(text: str) -> list[float]:
    """Returns the lengths in lower-case text, in meters; numbers without a unit are in meters."""
    return [float(number) * _UNITS_M[(unit or "m").removesuffix("s")] for number, unit in _LENGTH.findall(text)]


def position(text: str) -> tuple[float, float, float]:
    """Returns x, y, and z of a text that `TRIPLE` matches."""
    numbers, labels = list(map(float, _NUMBER.findall(text))), _LABEL.findall(text)
    if sorted(labels) == ["x", "y", "z"]:
        numbers = [numbers[labels.index(axis)] for axis in "xyz"]
    x, y, z = numbers
    return x, y, z
