"""The papers' rewards of whole episodes, from a run's configuration to what is learnt from."""

from __future__ import annotations

import pytest

from agents.oracle import OracleAgent
from agents.rollout import rollout
from judges.scores import Reward
from tests.unit.training.batches import run_config
from training.config.judge_config import JudgeConfig
from training.config.world_spec import WorldSpec
from training.rewards.turn_scores import TurnScorer
from vlm_envs.errors import ConfigError
from vlm_envs.trajectory import Trajectory

SMALL = {"side_px": 400, "target_px": (16, 40)}
NOTHING = {"grounding_weight": 0.0, "worldmodeling_weight": 0.0}


def world(prompt_format: str) -> WorldSpec:
    return WorldSpec(env_id="VLM/ZoomQA-v0", kwargs={**SMALL, "prompt_format": prompt_format})


def played(spec: WorldSpec, num: int = 4) -> list[Trajectory]:
    with spec.make_vector(num, split="train") as worlds:
        return rollout(OracleAgent(), worlds, list(range(num)), env_ids=[spec.env_id] * num)


def scorer(method: str) -> TurnScorer:
    return TurnScorer(JudgeConfig(**NOTHING, episode_reward=method))


def test_the_terms_are_on_the_last_turn_and_the_raw_reward_stays():
    trajectories = played(world("mags"))
    for each in scorer("mags_stage_1").score(trajectories):
        assert len(each.turns) == 2
        assert each.turns[0].rewards == {}
        assert sum(each.turns[1].rewards.values()) == pytest.approx(4.2)
        assert set(each.turns[1].rewards) >= {"mags_stage_1/answer", "mags_stage_1/zoom"}
        assert each.turn_rewards == [0.0, pytest.approx(1.0 + 4.2)]
        assert [turn.reward for turn in each.trajectory.turns] == [0.0, 1.0]
        assert all(each.trainable_turns)


def test_unavailable_masks_the_whole_episode(monkeypatch):
    trajectories = played(world("mags"), 2)
    chosen = scorer("mags_stage_1")
    monkeypatch.setattr(
        chosen, "_episode_judge", lambda episodes: [Reward.unavailable("down"), Reward(terms={"answer": 1.0})]
    )
    out, paid = chosen.score(trajectories)
    assert out.trainable_turns == [False, False]
    assert out.turn_rewards == [0.0, 1.0]
    assert paid.turn_rewards == [0.0, 2.0]


def test_what_an_episode_judge_remembers_is_part_of_the_state():
    specs = [world(f"ivgr_{stream}") for stream in ("textual", "grounded")]
    trajectories = [trajectory for spec in specs for trajectory in played(spec)]
    config = JudgeConfig(**NOTHING, episode_reward="ivgr")
    first, second = TurnScorer(config), TurnScorer(config)
    first.score(trajectories)
    assert first.metrics()["archive_size"] > 0
    second.load_state_dict(first.state_dict())
    of_all_steps = ("archive_size", "archive_hit_rate")
    assert [second.metrics()[name] for name in of_all_steps] == [first.metrics()[name] for name in of_all_steps]


@pytest.mark.parametrize(
    ("spec", "method"),
    [
        (world("direct"), "arm_accuracy"),
        (world("arm"), "argos"),
        (WorldSpec(env_id="VLM/FrozenLake-v0"), "mags_stage_1"),
        (world("ivgr_grounded"), "argos"),
    ],
)
def test_a_reward_that_cannot_read_the_world_is_refused(spec, method):
    with pytest.raises(ConfigError, match="reads prompt_format"):
        run_config(worlds=(spec,), judge=JudgeConfig(**NOTHING, episode_reward=method))


@pytest.mark.parametrize(("method", "stage"), [("mags_stage_1", 2), ("mags_stage_2", 1)])
def test_a_stages_reward_goes_with_its_prompt(method, stage):
    def mix(prompt_stage: int) -> tuple[WorldSpec, ...]:
        kwargs = {
            "prompt_format": "mags",
            "side_px": 400,
            "target_px": (16, 40),
            "mags_stage": prompt_stage,
            "answer_reward": 0.0,
        }
        return (WorldSpec(env_id="VLM/ZoomQA-v0", kwargs=kwargs),)

    judge = JudgeConfig(grounding_weight=0, worldmodeling_weight=0, episode_reward=method)
    with pytest.raises(ConfigError, match=f"mags_stage={3 - stage}"):
        run_config(worlds=mix(stage), judge=judge)
    assert run_config(worlds=mix(3 - stage), judge=judge)
