"""Directions, and relations of cells in words."""

import pytest

from vlm_envs.worlds.grids.grid_levels import (
    RELATION_PHRASES,
    Direction,
    Relation,
    named_cells,
    relation_between,
    relation_text,
    relations_of,
    relations_text,
)


def test_action_numbers_names_and_deltas() -> None:
    assert [(int(d), d.title, d.delta) for d in Direction] == [
        (0, "Up", (-1, 0)),
        (1, "Down", (1, 0)),
        (2, "Left", (0, -1)),
        (3, "Right", (0, 1)),
    ]


def test_neighbour_of_a_cell() -> None:
    assert Direction.LEFT.from_cell((3, 3)) == (3, 2)


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ((1, 1), "box0 is above and to the left of the player"),
        ((1, 2), "box0 is above and at the same column as the player"),
        ((0, 5), "box0 is above and to the right of the player"),
        ((2, 0), "box0 is at the same row and to the left of the player"),
        ((2, 2), "box0 is at the same place as the player"),
        ((2, 3), "box0 is at the same row and to the right of the player"),
        ((3, 1), "box0 is below and to the left of the player"),
        ((9, 2), "box0 is below and at the same column as the player"),
        ((3, 3), "box0 is below and to the right of the player"),
    ],
)
def test_wording_of_every_direction_around_a_player_at_2_2(cell: tuple[int, int], expected: str) -> None:
    assert relation_text(relation_between("box0", cell, "the player", (2, 2))) == expected


def test_signs_are_of_the_subject_as_seen_from_the_object() -> None:
    # Row 0 is the top: a smaller row is above (-1), a larger column is to the right (+1).
    assert relation_between("a", (0, 3), "b", (2, 1)) == Relation("a", -1, 1, "b")
    assert relation_between("b", (2, 1), "a", (0, 3)) == Relation("b", 1, -1, "a")


def test_each_phrase_names_one_direction_only() -> None:
    assert len(set(RELATION_PHRASES.values())) == len(RELATION_PHRASES) == 9


def test_relations_of_goes_subject_by_subject() -> None:
    relations = relations_of(named_cells("t", [(0, 0), (1, 1)]), {"x": (0, 0), "y": (1, 0)})
    assert [(relation.subject, relation.object) for relation in relations] == [
        ("t0", "x"),
        ("t0", "y"),
        ("t1", "x"),
        ("t1", "y"),
    ]


def test_sentences_are_joined_and_closed_by_full_stops() -> None:
    relations = relations_of({"a": (0, 0)}, {"b": (0, 1), "c": (0, 0)})
    assert relations_text(relations) == "a is at the same row and to the left of b. a is at the same place as c."
