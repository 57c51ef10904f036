"""Pictures of homes: deterministic, complete, and the right way round."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import sys

import numpy as np
import pytest

from tests.unit.vlm_envs.content.homes.plain_homes import one_room, thing, two_rooms
from vlm_envs.content.homes import panda_engine
from vlm_envs.content.homes.home import rooms_in_view
from vlm_envs.content.homes.home_generator import draw_plan, furnish
from vlm_envs.content.homes.home_space import free_space
from vlm_envs.content.homes.panda_engine import Camera, engine
from vlm_envs.errors import EngineUnavailableError

pytest.importorskip("panda3d.core", reason="panda3d is not installed: pip install 'vlm-envs[navigation]'")


def camera(x: float, y: float, heading: float, *, tilt: float = 0, size_px: int = 96, fov: float = 100) -> Camera:
    return Camera(x, y, 1.3, heading, tilt, fov, size_px)


def redness(picture: np.ndarray) -> np.ndarray:
    """Returns which pixels are clearly red."""
    red, green, blue = (picture[..., channel].astype(int) for channel in range(3))
    return (red > 2 * green) & (red > 2 * blue)


@pytest.mark.parametrize(
    ("x_cm", "y_cm", "rows", "columns"),
    [
        (250, 450, slice(48, 96), slice(32, 64)),  # ahead on the floor: below the middle
        (100, 400, slice(48, 96), slice(0, 48)),  # to the left
        (400, 400, slice(48, 96), slice(48, 96)),  # to the right
    ],
)
def test_a_thing_is_drawn_where_it_stands(x_cm: int, y_cm: int, rows: slice, columns: slice) -> None:
    home = one_room(thing("ArmChair", x_cm, y_cm, turn=2, color="red"))
    is_red = redness(engine().picture(home, camera(2.5, 2.5, 0)))
    assert is_red.sum() > 40
    assert is_red[rows, columns].sum() == is_red.sum()


def test_nothing_red_is_behind() -> None:
    home = one_room(thing("ArmChair", 250, 450, turn=2, color="red"))
    assert not redness(engine().picture(home, camera(2.5, 2.5, 180))).any()


def test_looking_up_moves_things_down() -> None:
    home = one_room(thing("Mirror", 250, 495, z_cm=112, turn=2), thing("Statue", 250, 450, z_cm=90, color="black"))
    rows = []
    for tilt in (-30, 0, 30):
        picture = engine().picture(home, camera(2.5, 2.5, 0, tilt=tilt)).astype(int)
        rows.append(np.flatnonzero((picture.sum(axis=2) < 200).any(axis=1)).mean())
    assert rows == sorted(rows) and rows[0] < rows[2] - 20


@pytest.mark.parametrize("size_px", [32, 255, 256])
def test_pictures_have_the_size_asked_for(size_px: int) -> None:
    picture = engine().picture(one_room(), camera(1, 1, 0, size_px=size_px))
    assert picture.shape == (size_px, size_px, 3) and picture.dtype == np.uint8
    assert picture.flags.writeable and picture.flags.c_contiguous


def test_a_picture_does_not_depend_on_what_was_drawn_before() -> None:
    homes = [one_room(thing("Sofa", 250, 400, color=color)) for color in ("red", "blue")]
    first = engine().picture(homes[0], camera(2.5, 1, 0))
    other = engine().picture(homes[1], camera(2.5, 1, 90, size_px=64, fov=60))
    assert other.shape == (64, 64, 3)
    np.testing.assert_array_equal(engine().picture(homes[0], camera(2.5, 1, 0)), first)
    assert (engine().picture(homes[1], camera(2.5, 1, 0)) != first).any()


def test_more_homes_than_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(panda_engine, "NUM_CACHED_SCENES", 3)
    fresh = panda_engine.PandaEngine()
    homes = [one_room(thing("Sofa", 100 + 30 * index, 400)) for index in range(6)]
    before = [fresh.picture(home, camera(2.5, 1, 0)).tobytes() for home in homes]
    assert len(set(before)) == 6
    assert [fresh.picture(home, camera(2.5, 1, 0)).tobytes() for home in homes] == before


@pytest.mark.soak
def test_leaving_out_rooms_changes_nothing_to_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    num_left_out = 0
    for _ in range(12):
        home = furnish(rng, *draw_plan(rng, "train"))
        space = free_space(home)
        places = [space.cell(index) for index, is_free in enumerate(space.is_free) if is_free]
        for _ in range(8):
            x, y = places[rng.integers(len(places))]
            view = camera(x / 4, y / 4, 90 * int(rng.integers(4)), tilt=30 * int(rng.integers(-2, 3)))
            num_shown = len(rooms_in_view(home, view.x_m, view.y_m, view.heading_degrees, view.width_degrees))
            num_left_out += len(home.rooms) - num_shown
            picture = engine().picture(home, view)
            with monkeypatch.context() as patch:
                patch.setattr(panda_engine, "rooms_in_view", lambda home, *_: tuple(range(len(home.rooms))))
                different = (engine().picture(home, view) != picture).any(axis=2)
            assert different.sum() <= 3  # single pixels between faces that touch
    assert num_left_out > 20


def test_rooms_are_seen_through_doors_only() -> None:
    home = two_rooms()
    assert rooms_in_view(home, 2.5, 2.5, 90, 100) == (0, 1)  # the door is ahead
    assert rooms_in_view(home, 2.5, 2.5, 270, 100) == (0,)  # behind
    assert rooms_in_view(home, 2.5, 2.5, 270, 360) == (0, 1)  # a tilted camera may see behind
    assert rooms_in_view(home, 5.0, 2.5, 270, 100) == (0, 1)  # in the doorway


def digest_of_a_picture(_: int = 0) -> str:
    home = two_rooms(thing("Globe", 300, 250, z_cm=74, color="blue"), thing("Sofa", 700, 250))
    return hashlib.blake2b(engine().picture(home, camera(1.5, 2.5, 90)).tobytes()).hexdigest()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_other_processes_draw_the_same(method: str) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system has no start method {method}")
    here = digest_of_a_picture()
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(digest_of_a_picture, range(4)) == [here] * 4
    assert digest_of_a_picture() == here


def test_one_engine_serves_a_process() -> None:
    assert engine() is engine()
    assert panda_engine._Current.pid == os.getpid()


def test_a_missing_renderer_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "panda3d.core", None)
    with pytest.raises(EngineUnavailableError, match=r"pip install -e '.*\[navigation\]'"):
        panda_engine.PandaEngine()


@pytest.mark.soak
def test_where_things_lie_in_memory_does_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equally deep surfaces are common in furnished homes: shelves against walls, rugs on floors."""
    from panda3d import core

    def pictures(num_between: int) -> list[bytes]:
        monkeypatch.setattr(panda_engine._Current, "engine", None)
        layout = core.GeomVertexFormat.get_v3c4()
        between = [core.GeomVertexData("between", layout, core.Geom.UH_static) for _ in range(num_between)]
        np.random.default_rng(num_between).shuffle(between)
        del between[::2]  # holes of which the next home's parts fill some
        shown = []
        for seed in range(12):
            rng = np.random.default_rng(seed)
            home = furnish(rng, *draw_plan(rng, "train"))
            for room in home.rooms:
                x, y = (room.west + room.east) / 8, (room.south + room.north) / 8  # steps of 25 cm
                shown += [engine().picture(home, camera(x, y, heading)).tobytes() for heading in (0, 90, 180, 270)]
        return shown

    first = pictures(0)
    assert [pictures(number) == first for number in (7, 501)] == [True, True]
