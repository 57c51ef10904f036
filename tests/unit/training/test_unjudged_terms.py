"""A term of the reward that nothing can judge is told at start-up, with what would judge it."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("pydantic", reason="needs the tools: pip install '.[tools]'")

from judges.episode_rewards.reward_registry import episode_reward
from tests.unit.training.batches import run_config
from tests.unit.vlm_envs.qa.datasets.test_argos_data import CHOICE, put, with_frames
from training.__main__ import main
from training.config.judge_config import JudgeConfig, VerifierConfig
from training.config.world_spec import WorldSpec
from training.preflight import ready
from training.preflight_judges import unjudged_terms
from training.recipes.argos import REWARDS

SCENES = WorldSpec(
    env_id="VLM/ZoomQA-v0",
    kwargs={"prompt_format": "points", "answer_reward": 0.0, "side_px": 200, "target_px": (16, 40)},
)


@pytest.fixture
def videos(tmp_path):
    """A world that asks of a copy of Video-R1."""
    with_frames(tmp_path, 2, "videos/1")
    put(tmp_path / "part.json", [CHOICE | {"path": "./videos/1.mp4"}])
    kwargs = {"prompt_format": "points", "answer_reward": 0.0, "dataset": "video_r1", "folder": str(tmp_path)}
    return WorldSpec(env_id="VLM/VideoQA-v0", kwargs={**kwargs, "train_on_all": True})


def told_of(*worlds, reward="full", **verifier):
    settings = {"grounding_weight": 0.0, "worldmodeling_weight": 0.0, "episode_reward": "argos"}
    judge = JudgeConfig(**settings, reward_settings=REWARDS[reward])
    config = run_config(worlds=worlds, judge=judge)
    given = VerifierConfig(**verifier)
    if given == VerifierConfig():
        return ready(config, imitates=False)[1]
    # Models that are given would have to be there
    names = [(str(number), "a data set's") for number in range(len(worlds))]
    return unjudged_terms(judge.reward, given, names, reward_set="--judge.reward-set")


def test_without_a_model_of_likelihood_the_whole_reward_is_its_ablation():
    (told,) = told_of(SCENES)
    assert told.startswith("Nothing judges reasoning in VLM/ZoomQA-v0, because")
    assert "--judge.reward-set reasoning_weight=0" in told and "--judge.verifier.likelihood DIR" in told
    assert told_of(SCENES, reward="without_reasoning") == []


def test_on_data_without_a_detector_points_earn_nothing(videos):
    told = told_of(videos)
    assert [line.split(" in ")[0] for line in told] == ["Nothing judges reasoning", "Nothing judges grounding"]
    assert "--judge.verifier.detector DIR and --judge.verifier.segmenter DIR" in told[1]
    *_, mixed = told_of(videos, replace(SCENES, name="scenes"))
    assert mixed.startswith("Nothing judges grounding in VLM/VideoQA-v0, because")
    assert told_of(videos, reward="outcome_only") == []


def test_what_models_judge_is_not_told():
    assert told_of(SCENES, likelihood="a", detector="b", segmenter="c") == []
    (told,) = told_of(SCENES, likelihood="a")
    assert told.startswith("Nothing judges grounding in 0, because")
    assert unjudged_terms(episode_reward("mags_stage_1"), VerifierConfig(), [("a", None)], reward_set="") == []
    assert unjudged_terms(None, VerifierConfig(), [("a", None)], reward_set="") == []


def test_stages_and_curations_are_told_by_their_own_options(tmp_path, tiny_directory, capsys, monkeypatch):
    monkeypatch.setattr("training.stages.stages_loop.train_stages_checked", lambda *_, **__: None)
    words = ["--model", str(tiny_directory), "--output", str(tmp_path), "--stages.grpo.sampling.max-new-tokens", "4"]
    assert main(["argos", *words]) == 0
    told = [line for line in capsys.readouterr().out.splitlines() if "Nothing judges" in line]
    assert [line.split(":")[0] for line in told] == ["Stage 'clips'", "Stage 'pictures'", "Stage 'grpo'"]
    for line, prefix in zip(told, ("clips.", "pictures.", "grpo.judge."), strict=True):
        assert f"--stages.{prefix}verifier.likelihood DIR" in line
        assert f"--stages.{prefix}reward-set reasoning_weight=0" in line
