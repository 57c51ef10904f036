"""What things look like: every kind is drawn, in its colours, within the size that collisions and sight use."""

from __future__ import annotations

import numpy as np
import pytest

from vlm_envs.content.homes.home import KINDS, Door, Home, Room, Thing, words_of
from vlm_envs.content.homes.home_generator import COMPANIONS, FURNISHINGS
from vlm_envs.content.homes.mesh_primitives import COLORS, ball, box, column, upright_disc
from vlm_envs.content.homes.panda_engine import ART, room_meshes, thing_mesh

RED = (200, 0, 0)


def test_there_are_enough_kinds_and_each_is_drawn() -> None:
    assert len(KINDS) >= 25
    assert set(ART) == set(KINDS)


def test_every_kind_belongs_to_some_room() -> None:
    placed = {companion.kind for group in COMPANIONS.values() for companion in group}
    for contents in FURNISHINGS.values():
        placed |= {*contents.along_walls, *contents.in_middle, *contents.in_corners, *contents.on_tops}
        placed |= set(contents.on_walls)
    assert placed == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_drawing_fills_the_size_of_its_kind(kind: str) -> None:
    vertices = thing_mesh(kind, KINDS[kind].colors[0], 0).vertices * 100
    extent = vertices.max(axis=0) - vertices.min(axis=0)
    size = np.array(KINDS[kind].size_cm)
    assert (extent <= size + 1.5).all(), f"{extent} is larger than {size}"
    assert (extent >= 0.75 * size).all(), f"{extent} is smaller than {size}"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sample(8)
def test_its_colors_have_names_and_look_different(kind: str) -> None:
    colors = KINDS[kind].colors
    assert set(colors) <= set(COLORS)
    looks = {thing_mesh(kind, color, 0).lit_colors().tobytes() for color in colors}
    assert len(looks) == len(colors)


@pytest.mark.parametrize(
    "mesh",
    [
        box((1, 2), (0.4, 0.6), 1.2, 1.5, RED),
        column((1, 2), 1.2, 1.5, 0.2, RED, top_radius=0.1),
        ball((1, 2, 1.35), (0.2, 0.3, 0.15), RED),
        upright_disc((1, 2, 1.35), 0.2, 0.1, RED),
    ],
)
def test_triangles_show_outwards(mesh) -> None:
    middle = np.array([1, 2, 1.35])
    for corners in mesh.vertices[mesh.triangles]:
        normal = np.cross(corners[1] - corners[0], corners[2] - corners[0])
        assert normal @ (corners.mean(axis=0) - middle) > 0


@pytest.mark.parametrize(("turn", "direction"), [(0, (0, 1)), (1, (1, 0)), (2, (0, -1)), (3, (-1, 0))])
def test_turns_go_clockwise_from_north(turn: int, direction: tuple[int, int]) -> None:
    front = box((0, 1), (0.1, 0.1), 0, 1, RED).turned(turn).vertices.mean(axis=0)
    np.testing.assert_allclose(front[:2], direction, atol=1e-6)


def test_a_home_is_drawn_room_by_room() -> None:
    rooms = tuple(
        Room(kind=kind, west=west, south=0, east=west + 12, north=12, wall="sand", floor=floor)
        for kind, west, floor in (("kitchen", 0, "white_tiles"), ("study", 12, "beige_carpet"))
    )
    sofa = Thing(kind="Sofa", x_cm=450, y_cm=100, z_cm=0, turn=0, color="red")
    home = Home(rooms=rooms, doors=(Door(is_upright=True, line=12, low=4, high=8),), things=(sofa,))
    kitchen, study = room_meshes(home)
    assert len(kitchen) == 1 and len(study) == 2
    west, east = study[1].vertices[:, 0].min(), study[1].vertices[:, 0].max()
    assert 3.59 < west < 3.61 and 5.39 < east < 5.41


def test_names_in_words() -> None:
    names = {"FloorLamp": "floor lamp", "TVStand": "tv stand", "Sofa": "sofa", "CounterTop": "counter top"}
    assert {kind: words_of(kind) for kind in names} == names
