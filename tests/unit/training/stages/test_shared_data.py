"""Reinforcement learning on data that an earlier stage curates: kept apart by a pool, or reported at the start."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from judges.episode_rewards import reward_registry
from judges.episode_rewards.episode_reward import EpisodeReward
from tests.unit.training.stages.test_stages_config import TUNED, explored, stages
from training.config.world_spec import WorldSpec
from training.curation.curation_config import CurateConfig
from training.pools.pool_config import PoolConfig
from training.stages.stages_config import Stage, StagesConfig
from training.stages.stages_preflight import checked_stages, require_listed, shared_samples
from vlm_envs.errors import ConfigError

JUDGING = "VLM/RewardJudging-v0"
APART = PoolConfig(file="own.jsonl", draw=5, exclude=("stage:rollouts",))


@pytest.fixture
def data(tmp_path) -> dict[str, Any]:
    rows = [{"prompt": f"What is {n} and 1?", "chosen": f"{n + 1}.", "rejected": f"{n}."} for n in range(30)]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return {"dataset": "pairs", "folder": str(tmp_path), "prompt_format": "arm"}


def run_of(data: dict[str, Any], *worlds: WorldSpec, start: str = "start", **options: Any) -> StagesConfig:
    """A curation, a fine-tuning on it, and reinforcement learning on some worlds."""
    curation = CurateConfig(
        worlds=(WorldSpec(env_id=JUDGING, kwargs=data, pool=options.pop("asked", None)),),
        episode_reward="arm_accuracy",
        num_samples=2,
    )
    learns = Stage(name="sft", run=replace(TUNED, model=start, data=("stage:rollouts",)))
    explore = explored()
    reinforced = replace(explore.run, worlds=worlds, model="stage before", num_eval_episodes=0, eval_every=0)
    rl = replace(explore, run=reinforced)
    return stages(Stage(name="rollouts", run=curation), learns, rl, **options)


def world(data: dict[str, Any], pool: PoolConfig | None = None) -> WorldSpec:
    return WorldSpec(env_id=JUDGING, kwargs=data, pool=pool)


def test_what_both_read_without_a_pool_is_reported_with_the_options_that_help(data):
    config = run_of(data, world(data))
    (line,) = shared_samples(config, 2)
    assert "world 0 may train on samples curated by stage 'rollouts': both read pairs at" in line
    assert "--stages.explore.worlds.0.pool.draw N --stages.explore.worlds.0.pool.exclude stage:rollouts" in line
    (line,) = shared_samples(run_of(data, world(data, replace(APART, exclude=()))), 2)
    assert "pool.draw" not in line and "--stages.explore.worlds.0.pool.exclude stage:rollouts" in line
    assert shared_samples(config, 1) == [], "a fine-tuning plays nothing"


def test_a_pool_that_leaves_out_what_is_kept_or_other_data_are_not_reported(data, tmp_path):
    assert shared_samples(run_of(data, world(data, APART)), 2) == []
    other = data | {"folder": str(tmp_path / "other")}
    assert shared_samples(run_of(data, world(other)), 2) == []
    assert shared_samples(run_of(data, WorldSpec(env_id=JUDGING, kwargs={"tracks": "instruction_following"})), 2) == []


def test_files_of_levels_are_compared(data, tmp_path):
    with WorldSpec(env_id=JUDGING, kwargs=data).made() as made:
        ids = made.dynamics.source.ids("train")
    pools = []
    for name, part in (("asked", ids[:4]), ("trained", ids[4:8]), ("both", ids[3:8])):
        (tmp_path / f"{name}.txt").write_text("\n".join(json.dumps({"id": each}) for each in part))
        pools.append(PoolConfig(file=str(tmp_path / f"{name}.txt")))
    asked, trained, both = pools
    assert shared_samples(run_of(data, world(data, trained), asked=asked), 2) == []
    assert shared_samples(run_of(data, world(data, both), asked=asked), 2)
    apart = replace(both, exclude=(asked.file,))
    assert shared_samples(run_of(data, world(data, apart), asked=asked), 2) == []
    assert shared_samples(run_of(data, world(data, trained)), 2), "a curation without a pool may ask anything"


def test_it_is_reported_before_the_first_stage_begins(data, tiny_directory, tmp_path, capsys):
    here = {"start": str(tiny_directory), "output": str(tmp_path / "runs")}
    short = data | {"prompt_format": "direct", "prompt_example": False, "obs_mode": "text"}
    checked_stages(run_of(data, world(short), **here), resume=False)
    assert "Stage 'explore': world 0 may train on samples curated by stage 'rollouts'" in capsys.readouterr().out
    checked_stages(run_of(data, world(short, APART), **here), resume=False)
    assert "may train on" not in capsys.readouterr().out


def test_what_a_stage_keeps_is_a_file_once_stages_are_resolved(data):
    config = run_of(data, world(data, replace(APART, exclude=("more.txt", "stage:rollouts"))))
    (spec,) = config.resolved()[2].worlds
    assert spec.pool.exclude == ("more.txt", str(Path("runs/test/1-rollouts/levels.jsonl")))


@pytest.mark.parametrize(
    ("pool", "told"),
    [
        (replace(APART, exclude=("stage:curated",)), "exclude stage:curated: no .*rollouts"),
        (PoolConfig(file="there.jsonl", exclude=("stage:rollouts",)), "pool.draw 256"),
    ],
)
def test_what_no_stage_lists_cannot_be_left_out(data, pool, told):
    with pytest.raises(ConfigError, match=f"Stage 'explore': .*{told}"):
        run_of(data, world(data, pool))


def test_start_states_without_ids_are_listed_by_nobody(data, monkeypatch):
    anything = EpisodeReward(name="anything", build=lambda models: None, rejection_reason=lambda episode: None)
    monkeypatch.setitem(reward_registry._REWARDS, "anything", anything)
    config = run_of(data, world(data, APART))
    lakes = CurateConfig(env_id="VLM/FrozenLake-v0", episode_reward="anything")
    rollouts = replace(config.stages[0], run=lakes)
    with pytest.raises(ConfigError, match=r"FrozenLake-v0 of stage 'rollouts' has no samples with ids"):
        require_listed(replace(config, stages=(rollouts, *config.stages[1:])), 2)
