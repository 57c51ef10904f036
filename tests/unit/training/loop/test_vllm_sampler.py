"""A run that vLLM samples for: what it is given, and what becomes of it when vLLM is lost. None is needed for it."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch

from agents.vllm.vllm_config import SamplerLostError, VLLMConfig
from tests.unit.agents.vllm.engines import FakeEngine
from tests.unit.models import load
from tests.unit.slow import quick
from tests.unit.training.batches import run_config
from tests.unit.training.test_run import metrics_of
from training.__main__ import main
from training.checkpoints.checkpoint_state import load_checkpoint_state
from training.config.update_config import LoRAConfig
from training.loop.rollout_agents import plain_weights
from training.preflight import require_sampler
from training.run import train
from vlm_envs.errors import ConfigError, EngineUnavailableError, WorkerError


@pytest.fixture
def engine(tiny, monkeypatch):
    """What every run here samples with."""
    made = FakeEngine(tiny[1].end_of_turn_id)
    monkeypatch.setattr("agents.vllm.vllm_agent.make_engine", lambda *_: made)
    monkeypatch.setattr("training.preflight.require_sampler", lambda _: None)
    return made


@pytest.fixture
def config(tiny_directory, tmp_path):
    config = run_config(model=str(tiny_directory), output=str(tmp_path), num_iterations=3)
    return replace(config, sampler="vllm", num_eval_episodes=2)


@pytest.mark.soak
@pytest.mark.parametrize("rollout", quick(["barrier", "async"], "async"))
def test_each_iteration_is_sampled_with_the_weights_of_the_update_before(rollout, engine, config):
    directory = train(replace(config, rollout=rollout))
    saved = load(directory / "latest" / "model")[0].state_dict()
    # Before, three iterations, and after; agents of evaluations have the engine to themselves
    assert len(engine.loaded) == 5 and engine.is_closed
    first, second, last = (engine.loaded[index]["lm_head.weight"] for index in (0, 2, 4))
    assert not torch.equal(first, second) and torch.equal(last, saved["lm_head.weight"])
    rows = metrics_of(directory)
    assert len(rows) == 3 and all(row["sampler_gap"] != 0 for row in rows if "sampler_gap" in row)
    assert any("sampler_gap" in row for row in rows)


@pytest.mark.soak
def test_a_resumed_run_draws_what_it_would_have_drawn(engine, config, tmp_path):
    train(replace(config, num_eval_episodes=0))
    whole = [request.seed for request in engine.requests]
    engine.requests.clear()
    again = replace(config, num_eval_episodes=0, output=str(tmp_path / "again"))
    train(replace(again, num_iterations=2))
    train(again, resume=True)
    assert [request.seed for request in engine.requests] == whole


def test_episodes_that_vllm_is_lost_with_are_counted_and_the_batch_goes_on(engine, config):
    engine.lost = frozenset({1, 7})  # in its first turn, and in a later one
    row = metrics_of(train(replace(config, num_eval_episodes=0, num_iterations=1)))[0]
    assert row["lost_episodes"] == 2.0 and row["dropped_groups"] == 0.0


@pytest.mark.soak
def test_when_nothing_is_left_the_run_stops_and_goes_on_from_its_checkpoint(engine, config, tmp_path, capsys):
    config = replace(config, num_eval_episodes=0)
    train(replace(config, num_iterations=1))
    num_answered, engine.lost_after = engine.num_answered, engine.num_answered + 1
    with pytest.raises(WorkerError, match=r"the responses of .* failed\. The last reason: the engine is gone"):
        train(config, resume=True)
    assert "saved as of" in capsys.readouterr().err
    engine.lost_after = None
    directory = train(config, resume=True)
    assert len(metrics_of(directory)) == 3 and num_answered > 0


@pytest.mark.soak
@pytest.mark.parametrize("every", quick([0, 1], 0))
def test_a_server_that_is_gone_at_a_sync_ends_the_run_and_leaves_a_checkpoint(
    every, engine, config, monkeypatch, capsys
):
    real, synced = engine.load, []

    def load(weights, version):
        synced.append(version)
        if len(synced) >= 2:
            raise SamplerLostError("No vLLM server answers at http://there:8000.")
        real(weights, version)

    monkeypatch.setattr(engine, "load", load)
    config = replace(config, num_eval_episodes=0, checkpoint_every=every)
    with pytest.raises(SamplerLostError):
        train(config)
    assert "SamplerLostError in iteration 1: saved as of 1 iterations." in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.setattr("agents.vllm.vllm_agent.make_engine", lambda *_: engine)
    monkeypatch.setattr("training.preflight.require_sampler", lambda _: None)
    directory = train(config, resume=True)
    assert load_checkpoint_state(directory / "latest")["iteration"] == 3


def test_weights_with_adapters_are_given_merged_and_under_a_checkpoints_names(tiny):
    from training.engines.lora import add_adapters

    plain, adapted = tiny[0], copy.deepcopy(tiny[0])
    add_adapters(adapted, LoRAConfig(rank=2))
    assert plain_weights(adapted).keys() == plain_weights(plain).keys()
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora_B" in name:
                weight.add_(1.0)
    changed = [
        name for name, value in plain_weights(adapted).items() if not torch.equal(value, plain_weights(plain)[name])
    ]
    assert changed and all("language_model" in name for name in changed)


def test_what_cannot_sample_is_refused_before_anything_costly(config, monkeypatch):
    monkeypatch.setattr("agents.vllm.vllm_config.find_spec", lambda name: None)
    with pytest.raises(EngineUnavailableError, match="needs the package vllm"):
        require_sampler(config)
    served = replace(config, vllm=VLLMConfig(url="http://127.0.0.1:9"))
    with pytest.raises(EngineUnavailableError, match="msgpack"):
        require_sampler(served)
    monkeypatch.setattr("agents.vllm.vllm_config.find_spec", lambda name: True)
    three = replace(config, vllm=VLLMConfig(url="http://a,http://b,http://c"))
    with pytest.raises(ConfigError, match="names 3 servers for 1 training process, each"):
        require_sampler(three)
    monkeypatch.setattr("training.preflight.num_processes", lambda: 2)
    with pytest.raises(ConfigError, match="names 3 servers for 2 training processes, each"):
        require_sampler(three)
    monkeypatch.setattr("training.preflight.num_processes", lambda: 4)
    require_sampler(three)


def test_a_missing_package_is_one_line_of_the_command(tiny_directory, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("agents.vllm.vllm_config.find_spec", lambda name: None)
    words = ["frozenlake_tiny", "--sampler", "vllm", "--model", str(tiny_directory), "--output", str(tmp_path)]
    assert main(words) == 2
    assert "pip install -e '.[vllm]' vllm==" in capsys.readouterr().err
    assert not any(tmp_path.iterdir())
