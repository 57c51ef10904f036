"""Evaluations may be sampled in another way than training, whoever samples; what is learnt does not depend on it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from agents.hf.sampling_config import SamplingConfig
from tests.unit.agents.vllm.engines import FakeEngine
from tests.unit.slow import quick
from tests.unit.training.batches import run_config
from tests.unit.training.test_run import differing
from training.__main__ import main
from training.checkpoints.checkpoint_state import load_checkpoint_state
from training.cold_start import cold_start_loop
from training.cold_start.cold_start_config import ColdStartConfig
from training.cold_start.cold_start_loop import make_cold_start
from training.config.resume import saved_config
from training.config.run_config import EvalSamplingConfig
from training.run import train
from vlm_envs.errors import ConfigError
from vlm_envs.records.run_data import RunReader

GREEDY = EvalSamplingConfig(temperature=0.0)


@pytest.fixture
def config(tiny_directory, tmp_path):
    return run_config(
        model=str(tiny_directory), output=str(tmp_path), num_iterations=2, eval_every=1,
        num_eval_episodes=3, num_val_episodes=2, num_threads=1,
    )  # fmt: skip


def said_in(directory, label):
    return [turn["response"] for episode in RunReader(directory).trajectories(label) for turn in episode["turns"]]


@pytest.mark.soak
def test_greedy_evaluations_say_the_same_under_any_seed_and_change_nothing_that_is_learnt(config, capsys):
    as_trained = train(replace(config, name="as_trained"))
    greedy = train(replace(config, name="greedy", eval_sampling=GREEDY))
    assert ", at temperature 0" in capsys.readouterr().out
    evaluations = RunReader(greedy).evaluations()
    assert [line["label"] for line in evaluations] == ["before", "iteration 1", "iteration 2", "after"]
    assert {line["temperature"] for line in evaluations} == {0.0}
    assert {line["temperature"] for line in RunReader(as_trained).evaluations()} == {1.0}
    assert differing(*(load_checkpoint_state(each / "latest") for each in (as_trained, greedy))) == []
    other = train(replace(config, name="other", eval_sampling=GREEDY, seed=7, num_iterations=0, eval_every=0))
    assert said_in(other, "after") == said_in(greedy, "before") != said_in(as_trained, "before")


@pytest.mark.parametrize("rollout", quick(["barrier", "async"], "async"))
def test_vllm_samples_evaluations_as_they_are_configured(tiny, config, monkeypatch, rollout):
    engine = FakeEngine(tiny[1].end_of_turn_id)
    monkeypatch.setattr("agents.vllm.vllm_agent.make_engine", lambda *_: engine)
    monkeypatch.setattr("training.preflight.require_sampler", lambda _: None)
    near = EvalSamplingConfig(temperature=0.01, top_p=0.95)
    train(replace(config, sampler="vllm", rollout=rollout, num_iterations=1, eval_every=0, eval_sampling=near))
    drawn = [(each["temperature"], each["top_p"], each["max_tokens"]) for each in (r.drawn() for r in engine.requests)]
    assert drawn[0] == drawn[-1] == (0.01, 0.95, 6), "before and after"
    assert {*drawn} == {(0.01, 0.95, 6), (1.0, 1.0, 6)}


def test_a_cold_start_is_validated_as_a_run_is(config, tmp_path, monkeypatch):
    found = []
    monkeypatch.setattr(cold_start_loop, "make_agent", lambda _, **settings: found.append(settings["sampling"]))
    monkeypatch.setattr(cold_start_loop, "_teach", lambda *_: (tmp_path / "saved").mkdir())
    monkeypatch.setattr(cold_start_loop, "mean_success", lambda _: 0.0)
    monkeypatch.setattr(cold_start_loop, "evaluate", lambda *_, **__: None)
    settings = ColdStartConfig(num_steps=1, num_first_turn_steps=0, start_from=config.model)
    make_cold_start(replace(config, eval_sampling=GREEDY, cold_start=settings), tmp_path / "saved", None)
    assert [each.temperature for each in found] == [0.0]


@pytest.mark.soak
def test_a_run_goes_on_with_its_own_and_one_of_before_the_option_as_in_training(config):
    directory = train(replace(config, num_iterations=1, eval_every=0, eval_sampling=GREEDY))
    assert saved_config(directory).eval_sampling == GREEDY
    with pytest.raises(ConfigError, match=r"--eval-sampling\.temperature: the run has 0\.0, requested is nothing"):
        train(replace(config, num_iterations=2), resume=True)
    path = directory / "config.json"
    saved = json.loads(path.read_text())
    del saved["eval_sampling"]
    path.write_text(json.dumps(saved))
    assert saved_config(directory).eval_sampling == EvalSamplingConfig()
    train(replace(config, num_iterations=2, eval_every=0), resume=True)
    assert RunReader(directory).evaluations()[-1]["temperature"] == 1.0


def test_an_option_sets_it_and_training_stays_as_it_is():
    over = EvalSamplingConfig(temperature=0.0, max_new_tokens=9).over(SamplingConfig(top_p=0.9, max_context_tokens=99))
    assert over == SamplingConfig(temperature=0.0, top_p=0.9, max_new_tokens=9, max_context_tokens=99)


def test_an_evaluation_that_leaves_no_room_for_its_responses_is_refused_by_its_option(config, capsys):
    words = ["frozenlake_tiny", "--output", config.output, "--sampling.max-context-tokens", "600"]
    assert main([*words, "--eval-sampling.max-new-tokens", "599"]) == 2
    assert "lower --eval-sampling.max-new-tokens, raise --sampling.max-context-tokens" in capsys.readouterr().err


def test_a_mistyped_value_is_told_by_its_option(capsys):
    assert main(["frozenlake_tiny", "--eval-sampling.temperature", "0.001"]) == 2
    told = capsys.readouterr().err
    assert "--eval-sampling.temperature must be at least 0.01, or 0 for the likeliest token; got 0.001" in told
