"""A pool of local data with missing or truncated images: each is reported and replaced."""

from __future__ import annotations

import json
import logging

import pytest

from tests.unit.training.batches import run_config
from tests.unit.vlm_envs.qa.test_broken_rows import cut_off
from tests.unit.vlm_envs.qa.test_datasets import image_bytes
from training.__main__ import main
from training.config.world_spec import WorldSpec
from training.mixture.mixed_worlds import MixedWorlds
from training.pools.pool_command import require_pools
from training.pools.pool_config import PoolConfig
from training.pools.pool_levels import open_pool, open_pools
from vlm_envs.errors import ConfigError
from vlm_envs.qa.datasets.dataset_splits import content_split

KINDS = ("train", "train", "train", "train", "test", "val")


@pytest.fixture
def folder(tmp_path):
    """Returns a data set with six questions, and their pictures' numbers by split."""
    numbers = iter(range(1000))
    taken = [next(each for each in numbers if content_split(f"{each}.png") == split) for split in KINDS]
    rows = [
        {"problem": "Which?\n(A) red\n(B) blue", "answer": "A", "images": [f"{each}.png"], "target_instances": []}
        for each in taken
    ]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "table.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for each in taken:
        (tmp_path / "data" / f"{each}.png").write_bytes(image_bytes(size=(64, 48)))
    return tmp_path / "data", taken


@pytest.fixture
def spec(folder, tmp_path):
    data, _ = folder
    (tmp_path / "pool.jsonl").write_text("".join(json.dumps({"id": f"treevgr:table/{n}"}) + "\n" for n in range(4)))
    kwargs = {"dataset": "treevgr", "folder": str(data), "max_pixels": 4000}
    return WorldSpec(env_id="VLM/ZoomQA-v0", kwargs=kwargs, pool=PoolConfig(file=str(tmp_path / "pool.jsonl")))


def epoch(spec, **changes):
    """Returns the levels of an epoch's iterations, and the worlds."""
    mixed = MixedWorlds([spec], 2, pools=open_pools([spec.pool], seed=0), **changes)
    return mixed, [level for number in (0, 1) for place in mixed.played(number) for level in mixed.next_levels(place)]


def test_the_next_level_that_can_be_shown_is_played_in_its_place(folder, spec, caplog):
    data, taken = folder
    whole = open_pool(spec.pool, seed=0).visited(0, 4)
    (data / f"{taken[1]}.png").unlink()
    (data / f"{taken[2]}.png").write_bytes(cut_off())
    with caplog.at_level(logging.WARNING):
        mixed, levels = epoch(spec)
    instead = {"treevgr:table/1": "treevgr:table/3", "treevgr:table/2": "treevgr:table/3"}
    assert levels == [instead.get(level, level) for level in whole] and len(levels) == 4
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2 and any("table.jsonl, line 2: There is no file" in each for each in told)
    assert any("table.jsonl, line 3: " in each and "is broken" in each for each in told)
    assert "2 of the pool's 4 levels" in told[1]
    assert mixed.metrics()["pool/VLM/ZoomQA-v0/broken"] == 2.0
    mixed.close()


def test_a_pool_of_which_nothing_can_be_shown_says_what_to_do(folder, spec):
    data, taken = folder
    for each in taken[:4]:
        (data / f"{each}.png").unlink()
    assert require_pools([spec])
    with pytest.raises(ConfigError, match=r"None of the 4 levels in the pool of .*--resume"):
        epoch(spec)


@pytest.mark.soak
def test_a_run_on_local_data_survives_broken_pictures_everywhere(folder, spec, tmp_path, capsys):
    data, taken = folder
    (data / f"{taken[0]}.png").write_bytes(cut_off())
    (data / f"{taken[3]}.png").unlink()
    with (data / "table.jsonl").open("a") as table:
        table.write("\n{broken\n")
    assert spec.pool is not None
    words = [
        "VLM/ZoomQA-v0",
        "--output",
        str(tmp_path / "runs"),
        "--name",
        "run",
        "--worlds.0.pool.file",
        spec.pool.file,
    ]
    words += ["--worlds.0.kwargs.dataset", "treevgr", "--worlds.0.kwargs.folder", str(data)]
    words += ["--worlds.0.kwargs.max-pixels", "4000", "--cold-start.num-steps", "0", "--num-iterations", "2"]
    words += ["--num-groups", "2", "--group-size", "2", "--ppo.num-minibatches", "1", "--num-eval-episodes", "1"]
    words += ["--num-val-episodes", "0", "--sampling.max-new-tokens", "4", "--num-threads", "1", "--device", "cpu"]
    with pytest.warns(UserWarning, match=r"1 of 7 rows of treevgr\. table.jsonl, line 7"):
        assert (
            main([*words, "--algorithm.critic.num-minibatches", "1", "--algorithm.critic.warmup-iterations", "0"]) == 0
        )
    lines = [json.loads(line) for line in (tmp_path / "runs" / "run" / "metrics.jsonl").read_text().splitlines()]
    assert lines[-1]["pool/VLM/ZoomQA-v0/broken"] == 2.0


def test_generated_levels_are_not_looked_at():
    config = run_config()
    mixed = MixedWorlds(config.worlds, 2, pools=(None,))
    assert mixed._shown == {}
    mixed.close()
