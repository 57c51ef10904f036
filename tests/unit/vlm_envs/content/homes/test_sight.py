"""What is seen and where it lies, by hand."""

from __future__ import annotations

import math

import pytest

from tests.unit.vlm_envs.content.homes.plain_homes import one_room, thing, two_rooms
from vlm_envs.content.homes.home_space import Pose, bearing, can_see, direction_of, seen_things

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
