"""Where one can stand and step, by hand and in random homes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.unit.vlm_envs.content.homes.plain_homes import one_room, thing, two_rooms
from vlm_envs.content.homes.home import KINDS, LATTICE_CM, QUARTERS, WALL_HEIGHT_CM, footprint_of, inner_cm
from vlm_envs.content.homes.home_generator import draw_plan, furnish
from vlm_envs.content.homes.home_space import (
    BODY_RADIUS_CM,
    Pose,
    are_rooms_connected,
    bearing,
    can_see,
    direction_of,
    free_space,
    seen_things,
)
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


MIDDLE = Pose(10, 10, 0, 0)  # 2.5 m, 2.5 m, looking north


@pytest.mark.parametrize(
    ("ahead", "right", "direction"),
    [
        (1, 0, "ahead"),
        (0, 1, "right"),
        (-1, 0, "back"),
        (0, -1, "left"),
        (1, 0.99, "ahead"),
        (0.99, 1, "right"),
        (-0.99, 1, "right"),
        (-1, 0.99, "back"),
        (-1, -0.99, "back"),
        (-0.99, -1, "left"),
        (0.99, -1, "left"),
        (1, -0.99, "ahead"),
        (1, 1, "ahead"),
        (-1, 1, "back"),
        (0, 0, "ahead"),
    ],
)
@pytest.mark.sample(3)
def test_directions_are_quarters(ahead: float, right: float, direction: str) -> None:
    assert direction_of(ahead, right) == direction


@pytest.mark.parametrize(("heading", "expected"), [(0, (1, 0.5)), (1, (0.5, -1)), (2, (-1, -0.5)), (3, (-0.5, 1))])
def test_a_bearing_turns_with_the_agent(heading: int, expected: tuple[float, float]) -> None:
    assert bearing(MIDDLE._replace(heading=heading), 3.0, 3.5) == pytest.approx(expected)


@pytest.mark.parametrize("heading", range(4))
def test_one_sees_what_is_ahead_only(heading: int) -> None:
    around = ((250, 400), (400, 250), (250, 100), (100, 250))
    home = one_room(*(thing("Vase", x, y, z_cm=90) for x, y in around))
    assert seen_things(home, MIDDLE._replace(heading=heading), 100) == (heading,)


def test_the_field_of_view_ends_where_it_should() -> None:
    for degrees, is_seen in ((49, True), (51, False), (-49, True), (-51, False)):
        x, y = 250 + round(200 * math.sin(math.radians(degrees))), 250 + round(200 * math.cos(math.radians(degrees)))
        home = one_room(thing("Vase", x, y, z_cm=100))
        assert can_see(home, MIDDLE, 0, 100) == is_seen, degrees


def test_looking_down_shows_the_floor_at_ones_feet() -> None:
    home = one_room(thing("BasketBall", 250, 300))
    seen = {tilt: can_see(home, MIDDLE._replace(tilt=tilt), 0, 100) for tilt in range(-2, 3)}
    assert seen == {-2: True, -1: True, 0: False, 1: False, 2: False}


def test_solid_furniture_hides_and_tables_do_not() -> None:
    vase = thing("Vase", 250, 450, z_cm=0)
    assert can_see(one_room(vase), MIDDLE, 0, 100)
    assert not can_see(one_room(vase, thing("Wardrobe", 250, 350, color="oak")), MIDDLE, 0, 100)
    assert can_see(one_room(vase, thing("DiningTable", 250, 350, color="oak")), MIDDLE, 0, 100)


def test_one_sees_over_low_furniture() -> None:
    tall_and_far = thing("FloorLamp", 250, 450)
    assert can_see(one_room(tall_and_far, thing("Bathtub", 250, 350, color="white")), MIDDLE, 0, 100)


def test_a_thing_does_not_hide_itself() -> None:
    assert can_see(one_room(thing("Wardrobe", 250, 400, color="oak")), MIDDLE, 0, 100)


def test_walls_hide_and_doorways_do_not() -> None:
    home = two_rooms(thing("FloorLamp", 700, 250), thing("FloorLamp", 700, 420))
    assert seen_things(home, Pose(10, 10, 1, 0), 100) == (0,)


def test_an_empty_home_shows_nothing() -> None:
    assert seen_things(one_room(), MIDDLE, 100) == ()
