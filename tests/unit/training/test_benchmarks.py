"""Data sets in training and evaluation: own pairs can be trained on, and no item of a benchmark is played twice."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[train]'")
pytest.importorskip("pydantic", reason="needs pydantic: pip install '.[tools]'")

from agents.oracle import OracleAgent
from training.config.judge_config import JudgeConfig
from training.config.run_config import RunConfig
from training.config.world_spec import WorldSpec
from training.loop.evaluation import evaluate
from training.pools.pool_config import DrawPoolConfig
from training.pools.pool_drawing import draw_pool
from training.pools.pool_levels import read_levels
from training.preflight import require_levels
from vlm_envs.errors import ConfigError
from vlm_envs.splits import SPLIT_SEEDS

ENV_ID = "VLM/RewardJudging-v0"
NO_TURN_JUDGE = JudgeConfig(grounding_weight=0.0, worldmodeling_weight=0.0)


def pairs(folder: Path, num_rows: int) -> dict[str, Any]:
    rows = [{"prompt": f"What is {n} and 1?", "chosen": f"{n + 1}.", "rejected": f"{n}."} for n in range(num_rows)]
    (folder / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return {"dataset": "pairs", "folder": str(folder), "prompt_format": "direct", "obs_mode": "text"}


def test_pairs_of_ones_own_are_collected_from(tmp_path):
    spec = WorldSpec(env_id=ENV_ID, kwargs=pairs(tmp_path, 60))
    assert spec.num_levels("train") is None
    with spec.make_vector(4, split="train") as worlds:
        worlds.reset(seed=[0, 1, 2, 3])
        response = "<think>I looked.</think><answer>Overall Judgment: Answer 1 is better.</answer>"
        _, rewards, terminated, _, _ = worlds.step([response] * 4)
    assert set(rewards) <= {0.0, 1.0} and all(terminated)


def test_a_benchmark_is_played_whole_and_once_and_the_line_says_so(tmp_path, capsys):
    spec = WorldSpec(env_id=ENV_ID, kwargs=pairs(tmp_path, 9) | {"is_benchmark": True})
    found = evaluate(OracleAgent(), spec, split="test", num_episodes=256)
    assert [trajectory.seed for trajectory in found.trajectories] == list(SPLIT_SEEDS["test"][:9])
    assert len({trajectory.turns[0].observation["text"] for trajectory in found.trajectories}) == 9
    assert found.record()["num_episodes"] == 9 and found.success == 1.0
    assert "9 levels, each played once; 256 episodes were requested" in capsys.readouterr().out
    assert len(evaluate(OracleAgent(), spec, split="test", num_episodes=4).trajectories) == 4
    assert "plays the first 4 of 9." in capsys.readouterr().out


def test_an_evaluation_may_begin_behind_levels_that_were_played_before(tmp_path, capsys):
    spec = WorldSpec(env_id=ENV_ID, kwargs=pairs(tmp_path, 9) | {"is_benchmark": True})
    found = evaluate(OracleAgent(), spec, split="test", num_episodes=256, first=4)
    assert [trajectory.seed for trajectory in found.trajectories] == list(SPLIT_SEEDS["test"][4:9])
    evaluate(OracleAgent(), spec, split="test", num_episodes=2, first=4)
    assert "plays the first 2 of 5 from 4 on." in capsys.readouterr().out
    with pytest.raises(ConfigError, match="has 9 levels; --first-eval-level 9 leaves none"):
        evaluate(OracleAgent(), spec, split="test", num_episodes=2, first=9)


def test_an_item_that_cannot_be_shown_is_not_evaluated(tmp_path, capsys, monkeypatch):
    kwargs = pairs(tmp_path, 6) | {"is_benchmark": True}
    rows = [json.loads(line) for line in (tmp_path / "pairs.jsonl").read_text().splitlines()]
    rows[2]["image"] = "missing.png"
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    found = evaluate(OracleAgent(), WorldSpec(env_id=ENV_ID, kwargs=kwargs), split="test", num_episodes=6)
    ids = [trajectory.turns[0].info["state"]["sample_id"] for trajectory in found.trajectories]
    assert len(ids) == len(set(ids)) == 5 == found.record()["num_episodes"]
    assert found.num_lost == 0, "no worker was lost"
    with monkeypatch.context() as patched:
        patched.setattr(WorldSpec, "unshown", lambda *_: pytest.fail("pictures are looked at once"))
        again = evaluate(OracleAgent(), WorldSpec(env_id=ENV_ID, kwargs=kwargs), split="test", num_episodes=6)
    assert len(again.trajectories) == 5
    assert "omitted 1 that cannot be shown. pairs.jsonl, line 3: " in capsys.readouterr().out


def test_that_none_can_be_shown_ends_an_evaluation(tmp_path):
    kwargs = pairs(tmp_path, 1) | {"is_benchmark": True}
    row = json.loads((tmp_path / "pairs.jsonl").read_text()) | {"image": "missing.png"}
    (tmp_path / "pairs.jsonl").write_text(json.dumps(row))
    with pytest.raises(ConfigError, match=r"omitted 1 .*Copy the dataset's images again"):
        evaluate(OracleAgent(), WorldSpec(env_id=ENV_ID, kwargs=kwargs), split="test", num_episodes=1)


def test_a_split_without_a_level_is_refused(tmp_path):
    spec = WorldSpec(env_id=ENV_ID, kwargs=pairs(tmp_path, 9) | {"is_benchmark": True})
    with pytest.raises(ConfigError, match="val has no levels to evaluate on"):
        evaluate(OracleAgent(), spec, split="val", num_episodes=4)


def test_worlds_that_draw_their_levels_are_played_as_long_as_asked():
    spec = WorldSpec(env_id="VLM/FrozenLake-v0")
    assert len(evaluate(OracleAgent(), spec, split="test", num_episodes=5).trajectories) == 5


@pytest.mark.parametrize(
    ("changes", "split"),
    [
        ({"is_benchmark": True}, "train"),
        ({}, None),
        ({"num_rows": 1}, "(train|val|test)"),
        ({"train_on_all": True}, "val"),
    ],
)
def test_a_run_on_data_without_a_level_that_it_needs_is_refused_before_it_starts(tmp_path, changes, split):
    given = dict(changes)
    kwargs = pairs(tmp_path, given.pop("num_rows", 200)) | given
    config = RunConfig(
        name="run", worlds=(WorldSpec(env_id=ENV_ID, kwargs=kwargs),), judge=NO_TURN_JUDGE, num_eval_episodes=8
    )
    if split is None:
        require_levels(config)
    else:
        remedy = "remove train_on_all" if "train_on_all" in changes else "is_benchmark=False"
        with pytest.raises(ConfigError, match=f"no level in split '{split}'.*{remedy}"):
            require_levels(config)


def test_a_run_that_evaluates_elsewhere_trains_on_all_of_its_data(tmp_path):
    kwargs = pairs(tmp_path, 9) | {"train_on_all": True}
    run = RunConfig(name="run", worlds=(WorldSpec(env_id=ENV_ID, kwargs=kwargs),), judge=NO_TURN_JUDGE, model="there")
    with pytest.raises(ConfigError, match=r"no level in split 'test'.*--num-eval-episodes 0"):
        require_levels(run)
    require_levels(replace(run, num_eval_episodes=0))
    assert len(draw_levels(run.worlds[0], tmp_path)) == 9


def draw_levels(spec: WorldSpec, folder: Path) -> list[str]:
    draw_pool(spec, DrawPoolConfig(out=str(folder / "pool.jsonl")))
    return [each.level_id for each in read_levels(folder / "pool.jsonl")]
