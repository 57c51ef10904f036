"""A level's text tells which split it belongs to, so that no held-out level is trained on by its text."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.vlm_envs.corridor import CorridorDynamics
from vlm_envs import make
from vlm_envs.errors import LevelError
from vlm_envs.splits import SPLITS, split_seeds

pytest.importorskip("pydantic", reason="needs pydantic: pip install '.[tools]'")

SMALL = {"side_px": 400, "target_px": (16, 40)}


@pytest.mark.parametrize(
    ("env_id", "kwargs"),
    [
        ("VLM/FrozenLake-v0", {}),
        ("VLM/Sokoban-v0", {}),
        ("VLM/SVG-v0", {}),
        ("VLM/Navigation-v0", {"resolution": 32}),
        ("VLM/ZoomQA-v0", SMALL),
        ("VLM/DocQA-v0", {"num_pages": 5}),
    ],
)
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.sample(7)
def test_a_drawn_level_belongs_to_the_split_it_was_drawn_for(env_id, kwargs, split):
    world = make(env_id, split=split, **kwargs).unwrapped
    for seed in split_seeds(split, 3):
        world.reset(seed=seed)
        assert world.dynamics.level_split(world.dynamics.dump(world.state)) == split
    with pytest.raises(LevelError):
        world.dynamics.level_split("nothing")


@pytest.mark.parametrize("split", SPLITS)
def test_a_world_need_not_define_which_split_a_level_belongs_to(split):
    dynamics = CorridorDynamics()
    state = dynamics.generate(np.random.default_rng(0), split)
    assert dynamics.level_split(dynamics.dump(state)) == split
    dynamics.splits_differ = False
    assert dynamics.level_split(dynamics.dump(state)) is None


def test_a_lake_that_is_the_only_one_is_of_all_splits():
    world = make("VLM/FrozenLake-v0", desc="P_\n_G").unwrapped
    assert world.dynamics.level_split("P_\n_G") is None
