"""A language model in the place of the exact judge, from a run's configuration to what can be learnt from."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents.api.endpoint_config import EndpointConfig
from agents.oracle import OracleAgent
from agents.rollout import rollout
from tests.unit.agents.api.endpoint import FakeEndpoint
from tests.unit.training.batches import run_config
from training.config.judge_config import JudgeConfig
from training.config.world_spec import WorldSpec
from training.rewards.turn_scores import TurnScorer
from vlm_envs.errors import ConfigError
from vlm_envs.trajectory import Trajectory

WORLD = WorldSpec(env_id="VLM/FrozenLake-v0", kwargs={"representation": "natural_language"})


@pytest.fixture
def trajectories() -> list[Trajectory]:
    with WORLD.make_vector(3, split="train") as worlds:
        return rollout(OracleAgent(), worlds, [0, 1, 2], env_ids=[WORLD.env_id] * 3)


def test_its_verdicts_pay_and_without_one_turns_are_masked(trajectories: list[Trajectory]) -> None:
    num_turns = sum(len(trajectory.turns) for trajectory in trajectories)
    with FakeEndpoint() as server:
        endpoint = EndpointConfig(model="judge", base_url=server.base_url, api_key_variable="", max_attempts=1)
        scorer = TurnScorer(JudgeConfig(method="direct", endpoint=endpoint))
        paid = scorer.score(trajectories)
        server.answer = lambda messages: "I would rather not say."
        masked = scorer.score(trajectories)
        metrics = scorer.metrics()
        scorer.close()
    for each in paid:
        raw = [turn.reward for turn in each.trajectory.turns]
        assert each.turn_rewards == pytest.approx([reward + 0.5 + 0.5 for reward in raw])
        assert all(each.trainable_turns)
    for each in masked:
        assert each.turn_rewards == [turn.reward for turn in each.trajectory.turns]
        assert not any(each.trainable_turns)
    # Observation and prediction of each turn, once with an answer and once without
    assert metrics["llm_judge/questions"] == 4 * num_turns
    assert metrics["llm_judge/unavailable"] == 2 * num_turns


def test_the_exact_judge_uses_nothing_up(trajectories: list[Trajectory]) -> None:
    scorer = TurnScorer(JudgeConfig())
    assert all(each.trainable_turns for each in scorer.score(trajectories))
    assert scorer.metrics() == {}


def test_a_method_that_asks_a_model_needs_an_endpoint() -> None:
    with pytest.raises(ConfigError, match="endpoint"):
        JudgeConfig(method="direct")


def test_a_configuration_with_an_endpoint_is_plain_data(tmp_path: Path) -> None:
    endpoint = EndpointConfig(model="judge", base_url="http://127.0.0.1:1/v1", cache_dir=tmp_path)
    config = run_config(worlds=(WORLD,), judge=JudgeConfig(method="extraction", endpoint=endpoint))
    saved = json.loads(json.dumps(config.to_dict()))
    assert saved["judge"]["endpoint"]["cache_dir"] == str(tmp_path)


def _open_question(prompt_format: str) -> Trajectory:
    """An episode whose answer only a model can compare, and is neither the truth's words nor refused."""
    spec = WorldSpec(
        env_id="VLM/ZoomQA-v0", kwargs={"side_px": 400, "target_px": (16, 40), "prompt_format": prompt_format}
    )
    with spec.make_vector(1, split="train") as worlds:
        (played,) = rollout(OracleAgent(), worlds, [0], env_ids=[spec.env_id])
    *turns, last = played.turns
    state = {**last.info["state"], "answer_kind": "semantic", "answers": ["said in other words"], "options": []}
    return replace(played, turns=(*turns, replace(last, info={**last.info, "state": state})))


@pytest.mark.parametrize(
    ("method", "prompt_format", "verdict", "term", "raw"),
    [
        # ARM-Thinker, iVGR and Argos: right or wrong
        ("arm_accuracy", "arm", "YES", "accuracy", 0.7),
        ("arm_accuracy", "arm", "NO", "accuracy", 0.0),
        ("ivgr", "ivgr_textual", "YES", "accuracy", 1.0),
        ("ivgr", "ivgr_textual", "NO", "accuracy", 0.0),
        ("argos", "points", "NO", "accuracy", 0.0),
        # Mags-RL: quarters, and half a point (of weight 2) from 0.7 on
        ("mags_stage_1", "mags", "0.75", "answer", 1.0),
        ("mags_stage_1", "mags", "0.5", "answer", 0.0),
    ],
)
def test_answers_are_judged_on_the_scale_of_the_paper(
    method: str, prompt_format: str, verdict: str, term: str, raw: float
) -> None:
    graded = ("0.0", "0.25", "0.5", "0.75", "1.0")

    def answer(messages: list[dict[str, Any]]) -> str:
        # Any model says what it was asked to say: a grade where grades are named, else yes or no.
        asks_for_grades = "<answer>0.25</answer>" in messages[0]["content"]
        said = verdict if (verdict in graded) == asks_for_grades else ("0.25" if asks_for_grades else "NO")
        return f"<answer>{said}</answer>"

    with FakeEndpoint() as server:
        server.answer = answer
        endpoint = EndpointConfig(model="judge", base_url=server.base_url, api_key_variable="", max_attempts=1)
        config = JudgeConfig(grounding_weight=0, worldmodeling_weight=0, episode_reward=method, endpoint=endpoint)
        scorer = TurnScorer(config)
        (scored,) = scorer.score([_open_question(prompt_format)])
        scorer.close()
    assert all(scored.trainable_turns), scored.turns[-1]
    assert scored.turns[-1].rewards[f"{method}/{term}"] == pytest.approx(raw)
