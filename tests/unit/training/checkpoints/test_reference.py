"""A run keeps where its reference is; one that is gone or another is refused before anything is loaded."""

from __future__ import annotations

import json
import shutil
from unittest.mock import Mock

import pytest

from tests.unit.training.batches import run_config
from training import run as run_module
from training.algorithms.dapo import DAPO
from training.algorithms.grpo import GRPO
from training.checkpoints.checkpoint_files import (
    LATEST,
    REFERENCE,
    STATE,
    kept_reference,
    reference_of,
    require_reference,
)
from training.checkpoints.checkpoint_state import save_checkpoint
from training.config.update_config import PPOConfig
from training.engines.engine import LocalEngine
from vlm_envs.errors import ConfigError


def gone(model):
    shutil.rmtree(model)


def changed(model):
    (weights,) = model.glob("*.safetensors")
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)


@pytest.fixture
def kept(tiny_directory, tiny, tmp_path):
    """A run's directory with a checkpoint of one iteration, and the reference beside it."""
    model, run = tmp_path / "start", tmp_path / "run"
    shutil.copytree(tiny_directory, model)
    save_checkpoint(run / LATEST, {"iteration": 1, "reference": reference_of(model, run)}, *tiny)
    return model, run


@pytest.mark.parametrize(("damage", "told"), [(gone, "is gone"), (changed, "has other weights now")])
def test_a_reference_that_is_not_there_any_more_is_refused_before_weights_are_loaded(kept, monkeypatch, damage, told):
    model, run = kept
    assert require_reference(run) == model
    damage(model)
    monkeypatch.setattr(run_module, "load_for_training", lambda *_: pytest.fail("weights are loaded first"))
    before = (run / LATEST / STATE).read_bytes()
    with pytest.raises(ConfigError) as refused:
        run_module._resumed(run_config(num_iterations=2), run, LocalEngine())
    (line,) = str(refused.value).splitlines()
    assert f"{model}, which {told}. Restore it" in line
    assert f"--model {run / LATEST / 'model'}" in line
    assert (run / LATEST / STATE).read_bytes() == before


def test_a_reference_within_the_run_moves_with_it(kept, tiny):
    model, run = kept
    shutil.move(model, run / "cold_start")
    save_checkpoint(run / LATEST, {"iteration": 1, "reference": reference_of(run / "cold_start", run)}, *tiny)
    assert json.loads((run / LATEST / REFERENCE).read_text())["path"] == "cold_start"
    moved = run.rename(run.with_name("moved"))
    assert require_reference(moved) == moved / "cold_start"
    (moved / LATEST / REFERENCE).unlink()
    assert kept_reference(moved) is None
    assert require_reference(moved) is None


def resumed(monkeypatch, run, algorithm):
    """Resumes a run with a KL coefficient; returns the checkpoints it loads and the reference it keeps."""
    config = run_config(num_iterations=2, algorithm=algorithm, ppo=PPOConfig(num_minibatches=2, kl_coef=0.001))
    loads, kept = [], []
    monkeypatch.setattr(run_module, "load_for_training", lambda path, _: (loads.append(path), None))
    monkeypatch.setattr(run_module, "Trainer", lambda *_, reference, **__: kept.append(reference) or Mock())
    monkeypatch.setattr(run_module, "RunWriter", Mock())
    monkeypatch.setattr(run_module, "continued", Mock())
    run_module._resumed(config, run, LocalEngine())
    return loads, kept[0]


def test_dapo_has_no_kl_penalty_and_resumes_without_the_start_that_an_earlier_version_kept(kept, monkeypatch):
    model, run = kept
    assert resumed(monkeypatch, run, GRPO())[0] == [run / LATEST / "model", model]
    gone(model)
    assert resumed(monkeypatch, run, DAPO()) == ([run / LATEST / "model"], None)


def test_a_new_dapo_run_keeps_no_start():
    settings = {"ppo": PPOConfig(num_minibatches=2, kl_coef=0.001)}
    assert run_config(algorithm=GRPO(), **settings).has_reference
    assert not run_config(algorithm=DAPO(), **settings).has_reference
