"""Where one thing is as seen from another, as data and as a sentence.

An agent is asked to describe these relations, a judge reads them back; both use the phrases below.

Source: VAGEN, Appendix C and the state texts of the visual-reasoning judge. Deviation: the diagonal
phrases say "above and to the left of", where the paper's dumps say "above and on the left side of"; one
wording then serves every relation with a side.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from vlm_envs.worlds.grids.directions import Cell


class Relation(NamedTuple):
    """`subject` as seen from `object`.

    Attributes:
        subject: Name of the thing described, as written in the sentence, e.g. `"box0"`.
        vertical: -1 if the subject is above the object, 0 in the same row, 1 below.
        horizontal: -1 if the subject is to the left of the object, 0 in the same column, 1 to the right.
        object: Name of the thing it is compared with, e.g. `"the player"`.
    """

    subject: str
    vertical: int
    horizontal: int
    object: str


RELATION_PHRASES: Mapping[tuple[int, int], str] = {
    (-1, -1): "above and to the left of",
    (-1, 0): "above and at the same column as",
    (-1, 1): "above and to the right of",
    (0, -1): "at the same row and to the left of",
    (0, 0): "at the same place as",
    (0, 1): "at the same row and to the right of",
    (1, -1): "below and to the left of",
    (1, 0): "below and at the same column as",
    (1, 1): "below and to the right of",
}
"""The phrase for each (vertical, horizontal) pair of signs."""


def relation_between(subject: str, subject_cell: Cell, object: str, object_cell: Cell) -> Relation:
    """Returns the relation of one named cell to another: the signs of row and column differences with both names."""
    vertical = _sign(subject_cell[0] - object_cell[0])
    return Relation(subject, vertical, _sign(subject_cell[1] - object_cell[1]), object)


def relations_of(subjects: Mapping[str, Cell], objects: Mapping[str, Cell]) -> tuple[Relation, ...]:
    """Returns the relation of every subject to every object, subject by subject."""
    return tuple(
        relation_between(subject, subject_cell, object_, object_cell)
        for subject, subject_cell in subjects.items()
        for object_, object_cell in objects.items()
    )


def named_cells(kind: str, cells: Iterable[Cell]) -> dict[str, Cell]:
    """Returns cells under the names `kind0`, `kind1`, ... in the order given."""
    return {f"{kind}{index}": cell for index, cell in enumerate(cells)}


def relation_text(relation: Relation) -> str:
    """Returns one relation as a clause, e.g. `"box0 is above and to the left of the player"`."""
    phrase = RELATION_PHRASES[relation.vertical, relation.horizontal]
    return f"{relation.subject} is {phrase} {relation.object}"


def relations_text(relations: Iterable[Relation]) -> str:
    """Returns relations as sentences: clauses joined by `". "` and closed by a full stop."""
    return ". ".join(relation_text(relation) for relation in relations) + "."


def _sign(difference: int) -> int:
    return (difference > 0) - (difference < 0)
