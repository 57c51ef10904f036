"""After any failure in a cold start, the model of the last complete step is a checkpoint to train from."""

from __future__ import annotations

import copy
import math

import pytest
import torch

from agents.hf.hf_agent import load_checkpoint
from tests.unit.training.batches import WORLD, run_config
from training.cold_start import cold_start_loop
from training.cold_start.cold_start_config import ColdStartConfig
from training.cold_start.cold_start_loop import make_cold_start
from training.cold_start.demonstrations import COPYING
from training.engines.optimizer import Optimizer


@pytest.fixture
def cold_start(tiny, tmp_path, monkeypatch):
    """Returns what makes a cold start of four steps, from a tiny model that is there already, and where it goes."""
    monkeypatch.setattr("training.cold_start.cold_start_loop.save_tiny", lambda *_, **__: None)
    monkeypatch.setattr(cold_start_loop, "load_for_training", lambda *_: (copy.deepcopy(tiny[0]), tiny[1]))
    directory = tmp_path / "cold_start"
    settings = ColdStartConfig(num_steps=4, num_first_turn_steps=2, batch_size=2)
    config = run_config(cold_start=settings, num_val_episodes=2, eval_every=0)
    return lambda writer=None: make_cold_start(config, directory, writer), directory


@pytest.fixture
def steps(monkeypatch):
    """The weights after each whole step."""
    real, weights = Optimizer.step, []

    def remembered(self):
        result = real(self)
        weights.append([weight.detach().clone() for weight in self._weights])
        return result

    monkeypatch.setattr(Optimizer, "step", remembered)
    return weights


def third_call_fails(real, error):
    calls = []

    def failing(*args, **kwargs):
        calls.append(args)
        if len(calls) == 3:
            raise error
        return real(*args, **kwargs)

    return failing


class FullDisk:
    """A run's writer that has room for two lines."""

    def __init__(self) -> None:
        self.metrics = third_call_fails(lambda line: None, OSError("No space left on device"))


def fail(monkeypatch, what):
    """Lets the third batch, the third step half-way, or the evaluation at the end fail."""
    if what == "a world":
        from training.cold_start.cold_start_loop import make_batch

        monkeypatch.setattr(
            "training.cold_start.cold_start_loop.make_batch", third_call_fails(make_batch, RuntimeError("crashed"))
        )
    elif what == "half a step":
        whole = Optimizer._round
        monkeypatch.setattr(Optimizer, "_round", third_call_fails(whole, MemoryError("out of memory")))
    elif what == "the evaluation":

        def crashing(*args, **kwargs):
            raise RuntimeError("crashed")

        monkeypatch.setattr("training.cold_start.cold_start_loop.evaluate", crashing)


@pytest.mark.parametrize(
    ("what", "error", "where", "num_done"),
    [
        ("a world", RuntimeError, "", 2),
        ("half a step", MemoryError, "", 2),
        ("a full disk", OSError, "", 3),
        ("the evaluation", RuntimeError, " in the validation,", 4),
    ],
)
def test_what_fails_leaves_the_last_whole_step(cold_start, steps, monkeypatch, capsys, what, error, where, num_done):
    make, directory = cold_start
    fail(monkeypatch, what)
    with pytest.raises(error):
        make(FullDisk() if what == "a full disk" else None)
    shown = capsys.readouterr().err
    assert f"{error.__name__}{where} after {num_done} of 4 steps of the cold start: the model is saved." in shown
    assert f"--model {directory}" in shown
    loaded, _ = load_checkpoint(directory)
    for saved, kept in zip(loaded.parameters(), steps[num_done - 1], strict=True):
        assert torch.equal(saved, kept)


def test_what_fails_before_the_first_step_leaves_nothing(cold_start, monkeypatch, capsys):
    make, directory = cold_start

    def crashing(*args, **kwargs):
        raise RuntimeError("crashed")

    monkeypatch.setattr("training.cold_start.cold_start_loop.make_batch", crashing)
    with pytest.raises(RuntimeError, match="crashed"):
        make()
    assert "saved" not in capsys.readouterr().err
    assert not directory.exists()


def test_what_cannot_be_saved_is_told_beside_what_failed(cold_start, monkeypatch, capsys):
    make, directory = cold_start

    def full(*args, **kwargs):
        raise OSError("No space left on device")

    monkeypatch.setattr("training.cold_start.cold_start_loop.save_model", full)
    fail(monkeypatch, "a world")
    with pytest.raises(RuntimeError, match="crashed"):
        make()
    assert "could not be saved (OSError: No space left on device)." in capsys.readouterr().err
    assert not directory.exists()


def test_a_fixed_set_of_demonstrations_is_shown_again_and_again_in_new_orders(tiny, monkeypatch):
    shown = []
    real = cold_start_loop.make_batch

    def seen(trajectories, *args):
        shown.append([(each.seed, len(each.turns)) for each in trajectories])
        return real(trajectories, *args)

    monkeypatch.setattr(cold_start_loop, "make_batch", seen)
    settings = ColdStartConfig(num_steps=6, num_first_turn_steps=3, batch_size=2, num_demonstrations=3)
    cold_start_loop.cold_start(copy.deepcopy(tiny[0]), tiny[1], (WORLD,), settings, on_step=lambda *_: None, seed=1)
    seeds = [seed for batch in shown for seed, _ in batch]
    assert len(set(seeds)) == 3 and [sorted(seeds[i : i + 3]) for i in range(0, 12, 3)] == [sorted(set(seeds))] * 4
    assert len({tuple(seeds[i : i + 3]) for i in range(0, 12, 3)}) > 1
    assert all(turns == 1 for batch in shown[:3] for _, turns in batch), "first turns first"
    assert any(turns > 1 for batch in shown[3:] for _, turns in batch)


def test_random_tokens_are_copied_before_anything_is_imitated(tiny, monkeypatch):
    shown = []
    real = cold_start_loop.make_batch

    def seen(trajectories, *args):
        shown.append([(each.env_id, len(each.turns)) for each in trajectories])
        return real(trajectories, *args)

    monkeypatch.setattr(cold_start_loop, "make_batch", seen)
    settings = ColdStartConfig(num_steps=5, num_copying_steps=2, num_first_turn_steps=2, batch_size=2)
    model, losses = copy.deepcopy(tiny[0]), []
    cold_start_loop.cold_start(
        model, tiny[1], (WORLD,), settings, on_step=lambda _, metrics: losses.append(metrics["loss"]), seed=1
    )
    assert [{world for world, _ in batch} for batch in shown] == [{COPYING}] * 2 + [{WORLD.env_id}] * 3
    assert [max(turns for _, turns in batch) > 1 for batch in shown] == [False] * 4 + [True]
    assert len(losses) == 5 and all(map(math.isfinite, losses))


def test_copying_is_done_at_the_full_rate_and_the_schedule_begins_after_it():
    both = ColdStartConfig(num_steps=30, num_copying_steps=10, num_first_turn_steps=0, warmup_steps=4).steps
    imitating = ColdStartConfig(num_steps=20, num_first_turn_steps=0, warmup_steps=4).steps
    rates = [both.learning_rate_at(step) for step in range(30)]
    assert rates[:10] == pytest.approx([0.25e-3, 0.5e-3, 0.75e-3, *[1e-3] * 7])
    assert rates[10:] == [imitating.learning_rate_at(step) for step in range(20)]


def test_digits_are_not_pushed_away_by_what_is_copied(tiny, monkeypatch):
    digits = list(range(10, 20))
    monkeypatch.setattr("training.cold_start.cold_start_loop.spared_tokens", lambda *_: digits)
    monkeypatch.setattr("training.cold_start.demonstrations._tokens", lambda *_: list(range(100, 190)))
    model = copy.deepcopy(tiny[0])
    embeddings = model.get_input_embeddings().weight
    before, kept = embeddings.detach().clone(), []
    settings = ColdStartConfig(
        num_steps=3, num_copying_steps=2, num_first_turn_steps=0, batch_size=2, weight_decay=0.0, warmup_steps=0
    )
    cold_start_loop.cold_start(
        model, tiny[1], (WORLD,), settings, on_step=lambda *_: kept.append(embeddings.detach().clone()), seed=1
    )
    others = [token for token in range(len(embeddings)) if token not in digits]
    assert torch.equal(kept[1][digits], before[digits])
    assert not torch.isclose(kept[1][others], before[others]).all(dim=1).any()
    assert not torch.isclose(kept[2][digits], before[digits]).all(dim=1).any(), "they are possible afterwards"
