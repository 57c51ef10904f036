"""Reinforcement learning on data that an earlier stage curates, kept apart by a pool."""

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
from training.stages.stages_preflight import require_listed
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


def test_what_a_stage_keeps_is_a_file_once_stages_are_resolved(data):
    config = run_of(data, world(data, replace(APART, exclude=("more.txt", "stage:rollouts"))))
    (spec,) = config.resolved()[2].worlds
    assert spec.pool.exclude == ("more.txt", str(Path("runs/test/1-rollouts/levels.jsonl")))


@pytest.mark.parametrize(
    ("pool", "told"),
    [
        (replace(APART, exclude=("stage:curated",)), "exclude stage:curated: no stage .*there is rollouts"),
        (PoolConfig(file="there.jsonl", exclude=("stage:rollouts",)), "must be drawn then. Use .*pool.draw 256"),
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
    with pytest.raises(ConfigError, match=r"FrozenLake-v0 of stage 'rollouts' asks no samples with ids"):
        require_listed(replace(config, stages=(rollouts, *config.stages[1:])), 2)
