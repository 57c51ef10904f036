"""Where one can stand and step, by hand and in random homes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.vlm_envs.content.homes.plain_homes import one_room, thing, two_rooms
from vlm_envs.content.homes.home import KINDS, LATTICE_CM, QUARTERS, WALL_HEIGHT_CM, footprint_of, inner_cm
from vlm_envs.content.homes.home_generator import draw_plan, furnish
from vlm_envs.content.homes.home_space import BODY_RADIUS_CM, are_rooms_connected, free_space
from vlm_envs.content.homes.home_text import home_data, read_home
from vlm_envs.splits import SPLITS, split_of


def random_home(seed: int, split: str = "train"):
    rng = np.random.default_rng(seed)
    return furnish(rng, *draw_plan(rng, split))


def test_one_stands_between_the_walls() -> None:
    space = free_space(one_room())
    free = {space.cell(index) for index, is_free in enumerate(space.is_free) if is_free}
    assert free == {(x, y) for x in range(1, 20) for y in range(1, 20)}


def test_the_body_keeps_off_furniture() -> None:
    # A box of 48 cm by 40 cm at (250, 250) covers x 226 to 274 and y 230 to 270; the body adds 20 cm all around
    space = free_space(one_room(thing("Box", 250, 250)))
    blocked = {(x, y) for x in range(1, 20) for y in range(1, 20) if not space.is_free_at((x, y))}
    assert blocked == {(x, y) for x in (9, 10, 11) for y in (9, 10, 11)}


def test_what_stands_on_furniture_or_hangs_blocks_nothing() -> None:
    home = one_room(thing("Bowl", 250, 250, z_cm=75), thing("Painting", 250, 8, z_cm=120))
    assert free_space(home).is_free == free_space(one_room()).is_free


def test_doors_lead_through_walls() -> None:
    space = free_space(two_rooms())
    assert [y for y in range(1, 20) if space.is_free_at((20, y))] == [9, 10, 11]


def test_without_furniture_only_walls_stop() -> None:
    home = two_rooms(thing("Sofa", 250, 250))
    assert free_space(home, 1, False).is_free == free_space(two_rooms()).is_free


@pytest.mark.parametrize("num_steps", [1, 2, 3])
def test_a_step_is_free_if_all_places_on_the_way_are(num_steps: int) -> None:
    home = random_home(3)
    space = free_space(home, num_steps)
    for index in range(len(space.is_free)):
        x, y = space.cell(index)
        for direction, (east, north) in enumerate(QUARTERS):
            way = [(x + east * count, y + north * count) for count in range(num_steps + 1)]
            assert space.can_step[direction][index] == all(map(space.is_free_at, way))


@pytest.mark.parametrize("seed", range(12))
def test_random_homes_are_furnished_sensibly(seed: int) -> None:
    home = random_home(seed)
    assert 2 <= len(home.rooms) <= 4 and len({room.kind for room in home.rooms}) == len(home.rooms)
    floor = []
    for item in home.things:
        room = home.rooms[home.room_of_thing(item)]
        footprint = footprint_of(item.kind, item.x_cm, item.y_cm, item.turn)
        assert footprint.is_within(inner_cm(room)), item
        assert item.z_cm + KINDS[item.kind].size_cm[2] <= WALL_HEIGHT_CM
        if KINDS[item.kind].place == "floor":
            tucked = ("DiningTable", "Desk") if item.kind == "Chair" else ()
            assert not any(footprint.meets(other) for kind, other in floor if kind not in tucked), item
            floor.append((item.kind, footprint))
        elif KINDS[item.kind].place == "top":
            supports = [each for each in home.things if KINDS[each.kind].top_cm == item.z_cm]
            covers = (footprint_of(each.kind, each.x_cm, each.y_cm, each.turn) for each in supports)
            assert any(footprint.is_within(cover) for cover in covers), item


def test_furniture_may_shut_off_a_room() -> None:
    assert are_rooms_connected(two_rooms())
    assert not are_rooms_connected(two_rooms(thing("Wardrobe", 560, 250, turn=1, color="oak")))


@pytest.mark.parametrize("seed", range(12))
def test_all_rooms_of_a_random_home_are_connected(seed: int) -> None:
    assert are_rooms_connected(random_home(seed))


@pytest.mark.parametrize("split", SPLITS)
def test_the_floor_plan_decides_the_split(split: str) -> None:
    for seed in range(5):
        home = random_home(seed, split)
        assert split_of(repr((home.rooms, home.doors)).encode()) == split


def test_homes_of_equal_content_are_equal() -> None:
    first, second = random_home(1), random_home(1)
    assert first is not second and first == second and hash(first) == hash(second)
    assert first != random_home(2)
    assert read_home(home_data(first)) == first


def test_lattice_and_body_leave_doors_passable() -> None:
    assert 3 * LATTICE_CM > 2 * BODY_RADIUS_CM
