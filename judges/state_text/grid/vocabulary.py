"""What there is to be right about in each world: its kinds of object, their weights and their names.

A vocabulary is data. A new grid world is one more entry of `VOCABULARIES`; the readers and the scoring follow from it.
"""

from __future__ import annotations

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
