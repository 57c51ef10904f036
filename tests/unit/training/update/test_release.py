"""The update has the memory for itself that playing took."""

from __future__ import annotations

import gc

from agents.hf.sampler import GrowingCache
from tests.unit.training.batches import run_config
from training.run import train
from training.update.learner import Learner


def caches_in_use():
    """Returns how many key-value caches hold anything."""
    gc.collect()
    return sum(bool(each.layers) for each in gc.get_objects() if type(each) is GrowingCache)


def test_no_key_value_cache_is_left_when_the_update_begins(tiny_directory, tmp_path, monkeypatch):
    left, outputs = [], Learner.model_outputs
    monkeypatch.setattr(
        Learner, "model_outputs", lambda self, batch: (left.append(caches_in_use()), outputs(self, batch))[1]
    )
    config = run_config(model=str(tiny_directory), output=str(tmp_path), num_iterations=2, num_eval_episodes=0)
    train(config)
    assert left == [0, 0]
