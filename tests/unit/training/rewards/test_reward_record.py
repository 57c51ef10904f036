"""One turn of a run, from the world's step to the page: every reward term once, and their sum in the batch."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from judges.episode_rewards import reward_registry
from judges.episode_rewards.episode_reward import EachByItself, EpisodeReward
from judges.scores import Reward
from training.batch import Batch
from training.config.judge_config import JudgeConfig
from training.recipes.shipped import RECIPES
from training.run import train
from training.update.learner import Learner
from vlm_envs.records.report_page import build_report
from vlm_envs.records.run_data import RunReader, recorded_terms
from vlm_envs.trajectory import PaidTerm, Trajectory
from vlm_envs.world import World


def patience(episode: Trajectory) -> Reward:
    raw = {"turns": float(len(episode.turns)), "quick": 0.0}
    return Reward(terms={"turns": 0.25 * raw["turns"], "quick": 0.0}, raw=raw)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    reward_registry.register(EpisodeReward(name="patience", build=lambda models: EachByItself(patience)))
    yield
    del reward_registry._REWARDS["patience"]


def test_a_turn_keeps_each_term_once_from_the_world_to_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[tuple[str, Any]] = []
    batches: list[Batch] = []
    step = World.step

    def seen_step(self: World[Any, Any], action: str) -> Any:
        steps.append((action, step(self, action)))
        return steps[-1][1]

    def no_update(self: Learner, batch: Batch, *args: Any, **kwargs: Any) -> dict[str, float]:
        batches.append(batch)
        return {}

    monkeypatch.setattr(World, "step", seen_step)
    monkeypatch.setattr(Learner, "update", no_update)
    config = RECIPES["frozenlake_tiny"]()
    config = replace(
        config,
        worlds=tuple(replace(world, workers="serial") for world in config.worlds),
        judge=JudgeConfig(grounding_weight=0.5, repetition_penalty=0.1, episode_reward="patience"),
        algorithm=config.algorithm.with_critic(warmup_iterations=0, num_minibatches=2),
        **{"name": "record", "output": str(tmp_path), "num_iterations": 1, "num_groups": 1, "group_size": 4},
        **{"num_eval_episodes": 0, "num_val_episodes": 0, "num_threads": 1, "device": "cpu", "record_every": 1},
    )
    run = train(config)

    episode = RunReader(run).trajectories("training 0")[0]
    turn = episode["turns"][-1]
    [(reward, in_world)] = {
        (outcome[1], tuple(outcome[4]["reward_terms"].items()))
        for action, outcome in steps
        if (action, outcome[4]["state_hash"]) == (turn["response"], turn["state_hash"])
    }
    terms = recorded_terms(turn)
    by_name = {term.name: term for term in terms}
    assert len(by_name) == len(terms)
    assert [(term.name, term.value) for term in terms if term.is_world] == list(in_world)
    assert reward == turn["reward"] == sum(term.value for term in terms if term.is_world)
    assert {term.name: term.source for term in terms if not term.is_world} == {
        **dict.fromkeys(("grounding", "worldmodeling", "repetition"), "judge:exact"),
        **dict.fromkeys(("patience/turns", "patience/quick"), "episode:patience"),
    }
    assert by_name["format"].source == "format" and by_name["step"].source == "env"
    grounding = by_name["grounding"]
    assert grounding.weight == 0.5 and grounding.value == 0.5 * turn["scores"]["observation"] > 0
    num_turns = len(episode["turns"])
    assert by_name["patience/turns"] == PaidTerm(
        name="patience/turns", value=0.25 * num_turns, source="episode:patience", weight=0.25
    )
    assert by_name["patience/quick"].weight is None, "a score of 0 says nothing of its weight"

    [batch] = batches
    paid = [float(value) for value in batch.turn_rewards_BK[0]][:num_turns]
    recorded = [sum(term.value for term in recorded_terms(each)) for each in episode["turns"]]
    assert paid == pytest.approx(recorded, abs=1e-5)

    html = build_report(run).read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="payload">(.*?)</script>', html, re.DOTALL)
    assert found is not None
    [label] = json.loads(found[1])["labels"]
    [shown] = [shown for shown in label["episodes"] if shown["key"].endswith(f"/{episode['seed']}/0")]
    assert [PaidTerm(**term) for term in shown["turns"][-1]["reward_terms"]] == list(terms)
