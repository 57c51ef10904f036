"""Pictures too large to be held are refused when a world is made, not when memory runs out."""

from __future__ import annotations

import pytest

from tests.unit.vlm_envs.corridor import CorridorWorld
from vlm_envs import make
from vlm_envs.errors import ConfigError


@pytest.mark.parametrize(
    ("env_id", "kwargs", "said"),
    [
        ("VLM/Navigation-v0", {"resolution": 100_000}, "resolution must be an integer from 16 to 2048; got 100000"),
        ("VLM/PrimitiveSkill-v0", {"resolution": 100_000}, "resolution must be an integer from 32 to 2048; got 100000"),
        ("VLM/SVG-v0", {"resolution": 100_000}, "resolution must be an integer from 16 to 2048; got 100000"),
        ("VLM/FrozenLake-v0", {"cell_px": 100_000}, "cell_px must be an integer from 8 to 256; got 100000"),
        ("VLM/Sokoban-v0", {"cell_px": 100_000}, "cell_px must be an integer from 8 to 256; got 100000"),
        ("VLM/FrozenLake-v0", {"size": 500}, "14000 x 14000 pixels; at most 4096"),
        ("VLM/Sokoban-v0", {"dim_room": (6, 500)}, "168 x 14000 pixels; at most 4096"),
        ("VLM/FrozenLake-v0", {"size": 100_000}, "size must be an integer from 2 to 512; got 100000"),
        ("VLM/Sokoban-v0", {"dim_room": (6, 100_000)}, r"dim_room\[1\] must be an integer from 3 to 512; got 100000"),
    ],
)
def test_too_large_a_picture_is_refused(env_id, kwargs, said):
    with pytest.raises(ConfigError, match=said):
        make(env_id, **kwargs)


@pytest.mark.parametrize(
    ("env_id", "kwargs"),
    [
        ("VLM/FrozenLake-v0", {"size": 100_000}),
        ("VLM/FrozenLake-v0", {"desc": ["P" + "_" * 512, *["_" * 513] * 511, "_" * 512 + "G"]}),
        ("VLM/Sokoban-v0", {"dim_room": (100_000, 6)}),
        ("VLM/Sokoban-v0", {"dim_room": (6, 100_000)}),
    ],
)
def test_a_grid_larger_than_any_picture_shows_is_refused_without_pictures_too(env_id, kwargs):
    with pytest.raises(ConfigError, match=r"must be an integer from . to 512; got"):
        make(env_id, obs_mode="text", **kwargs)


def test_the_largest_pictures_can_be_made():
    assert make("VLM/Navigation-v0", resolution=2048).observation_space["image"].shape == (2048, 2048, 3)
    assert make("VLM/FrozenLake-v0", size=16, cell_px=256).observation_space["image"].shape == (4096, 4096, 3)


def test_worlds_of_users_are_held_to_it_too():
    world = CorridorWorld()
    with pytest.raises(ConfigError, match="2 x 4097 pixels; at most 4096"):
        world.set_picture_shape((2, 4097, 3))
    world.set_picture_shape((2, 4096, 3))


def test_without_a_picture_nothing_is_too_large():
    assert (
        "image" not in make("VLM/Sokoban-v0", dim_room=(6, 200), cell_px=28, obs_mode="text").observation_space.spaces
    )
