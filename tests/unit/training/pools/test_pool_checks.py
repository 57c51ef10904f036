"""Pools that cannot be trained on are refused before anything runs, by file and line and with what helps."""

from __future__ import annotations

import json

import pytest

from tests.unit.episodes import LAKE, SHORT
from tests.unit.vlm_envs.qa.datasets.test_benchmarks import vstar
from training.config.world_spec import WorldSpec
from training.pools.pool_command import require_pools
from training.pools.pool_config import PoolConfig
from vlm_envs import make
from vlm_envs.errors import ConfigError
from vlm_envs.splits import split_seeds


def lake_of(split, number=0):
    world = make(LAKE, split=split).unwrapped
    (seed,) = split_seeds(split, 1, start=number)
    world.reset(seed=seed)
    return world.dynamics.dump(world.state)


def pool_of(path, *ids, **filters):
    path.write_text("".join(json.dumps({"id": each}) + "\n" for each in ids))
    return PoolConfig(file=str(path), **filters)


def lakes(**pools):
    return WorldSpec(env_id=LAKE, kwargs=dict(SHORT), **pools)


def test_levels_of_training_are_taken(tmp_path):
    ids = [lake_of("train", number) for number in range(70)]
    require_pools([lakes(pool=pool_of(tmp_path / "a", *dict.fromkeys(ids))), lakes()])


@pytest.mark.parametrize("split", ["val", "test"])
def test_held_out_levels_are_refused(split, tmp_path):
    pool = pool_of(tmp_path / "pool", lake_of("train"), lake_of(split))
    with pytest.raises(ConfigError, match=rf"pool, line 2: this level belongs to the split '{split}', which is held"):
        require_pools([lakes(pool=pool)])
    with pytest.raises(ConfigError, match="line 2: this level belongs"):
        require_pools([lakes(cold_start_pool=pool)])


def test_a_level_that_a_world_cannot_load_is_named(tmp_path):
    pool = pool_of(tmp_path / "pool", *[lake_of("train", number) for number in (0, 3)], "P_O\nOOO\n__G")
    with pytest.raises(ConfigError, match=r"pool, line 3: VLM/FrozenLake-v0 cannot load .* Expected a lake of size=4"):
        require_pools([lakes(pool=pool)])


def test_levels_to_train_on_and_levels_to_imitate_are_disjoint(tmp_path):
    ids = [*dict.fromkeys(lake_of("train", number) for number in range(4))]
    rl, sft = pool_of(tmp_path / "rl", *ids[:2]), pool_of(tmp_path / "sft", *ids[1:])
    with pytest.raises(
        ConfigError, match=r"1 levels of .* at .*rl, line 2 and .*sft, line 1\. Exclude .* (--\S+ \S+)$"
    ):
        require_pools([lakes(pool=rl, cold_start_pool=sft)])
    with pytest.raises(ConfigError, match="both in a training pool and in a cold start pool"):
        require_pools([lakes(pool=rl), WorldSpec(env_id=LAKE, kwargs=dict(SHORT), name="b", cold_start_pool=sft)])
    apart = pool_of(tmp_path / "sft", *ids[1:], exclude=(rl.file,))
    require_pools([lakes(pool=rl, cold_start_pool=apart)])


def test_the_remedy_names_the_world_that_has_the_pool_of_the_cold_start(tmp_path):
    ids = [*dict.fromkeys(lake_of("train", number) for number in range(4))]
    rl, sft = pool_of(tmp_path / "rl", *ids[:2]), pool_of(tmp_path / "sft", *ids[1:])
    with pytest.raises(ConfigError, match=rf"--worlds\.0\.cold-start-pool\.exclude {rl.file}, or draw others"):
        require_pools([lakes(cold_start_pool=sft), lakes(pool=rl, name="b")])


def test_data_sets_are_looked_up_by_id_and_split(tmp_path):
    folder = vstar(tmp_path / "vstar")
    kwargs = {"dataset": "vstar", "folder": str(folder), "is_benchmark": False}
    source = make("VLM/ZoomQA-v0", **kwargs).unwrapped.dynamics.source
    trained, tested = source.ids("train"), source.ids("test")
    spec = WorldSpec(env_id="VLM/ZoomQA-v0", kwargs=kwargs)
    for picture in folder.rglob("*.jpg"):
        picture.rename(picture.with_suffix(".away"))  # which are not needed to look an id up
    require_pools([WorldSpec(env_id=spec.env_id, kwargs=kwargs, pool=pool_of(tmp_path / "a", *trained))])
    for ids, told in (((trained[0], tested[0]), "line 2: this level .* 'test'"), (("vstar:none",), "cannot load")):
        with pytest.raises(ConfigError, match=told):
            require_pools([WorldSpec(env_id=spec.env_id, kwargs=kwargs, pool=pool_of(tmp_path / "b", *ids))])
