"""One-step-off-policy training: a batch is played by the weights from before the last update, beside it."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest

from tests.unit.slow import quick
from tests.unit.training.batches import WORLD, run_config
from tests.unit.training.test_run import differing, metrics_of
from training.algorithms.dapo import DAPO
from training.checkpoints.checkpoint_state import load_checkpoint_state
from training.config.processes import require_engine
from training.config.update_config import MemoryConfig, PPOConfig
from training.loop.collect import Collector
from training.loop.prefetch import Batches, Sampling
from training.run import train
from training.update.learner import Learner
from vlm_envs.errors import ConfigError, WorkerError

PPO = PPOConfig(num_minibatches=1, warmup_iterations=0, learning_rate=1e-3, importance_cap=2.0)
TIMES = {"iteration_s", "rollout_s", "elapsed_s", "turns_per_s", "tokens_per_s"}


def stale(tiny_directory, tmp_path, name="run", **changes):
    settings = {
        "name": name,
        "worlds": (replace(WORLD, workers="serial"),),
        "output": str(tmp_path),
        "model": str(tiny_directory),
        "ppo": PPO,
        "staleness": 1,
        "num_iterations": 4,
        "num_eval_episodes": 0,
        "num_threads": 1,
    }
    return run_config(**{**settings, **changes})


@pytest.fixture
def played_by(monkeypatch):
    """Of each batch the iteration it is for, the policy's version, that of the learner, and the thread."""
    batches, learners = [], []
    real, made = Sampling.__call__, Learner.__init__

    def noted(self, agent, iteration, watcher=None):
        batches.append((iteration, agent.policy_version, threading.current_thread() is threading.main_thread()))
        return real(self, agent, iteration, watcher)

    def remember(self, *args, **kwargs):
        made(self, *args, **kwargs)
        learners.append(self)

    monkeypatch.setattr(Sampling, "__call__", noted)
    monkeypatch.setattr(Learner, "__init__", remember)
    return batches


@pytest.mark.soak
@pytest.mark.parametrize("rollout", quick(["barrier", "async"], "barrier"))
def test_each_batch_is_one_update_behind_and_runs_are_equal(rollout, tiny_directory, tmp_path, played_by):
    config = stale(tiny_directory, tmp_path, rollout=rollout, num_iterations=3)
    first, second = (train(replace(config, name=name)) for name in ("first", "second"))
    assert played_by == [(0, 0, True), (1, 0, False), (2, 1, False)] * 2, "and nothing beyond the last"
    lines = metrics_of(first)
    assert [line["staleness"] for line in lines] == [0.0, 1.0, 1.0]
    assert differing(*(load_checkpoint_state(each / "latest") for each in (first, second))) == []
    again = metrics_of(second)
    for ours, theirs in zip(lines, again, strict=True):
        names = ours.keys() - TIMES
        assert {name: ours[name] for name in names} == {name: theirs[name] for name in names}


@pytest.mark.soak
def test_the_update_goes_on_while_the_next_batch_is_played(tiny_directory, tmp_path, monkeypatch):
    """Batch 1 is not played before the update on batch 0 has begun, and that does not end before it is."""
    began, was_played, waited = threading.Event(), threading.Event(), []
    collect, update = Collector.collect, Learner.update

    def waits_for_the_update(self, agent, iteration, *args):
        if iteration == 1:
            waited.append(began.wait(30.0))
        groups = collect(self, agent, iteration, *args)
        if iteration == 1:
            was_played.set()
        return groups

    def waits_for_the_batch(self, *args, iteration):
        if iteration == 0:
            began.set()
            waited.append(was_played.wait(30.0))
        return update(self, *args, iteration=iteration)

    monkeypatch.setattr(Collector, "collect", waits_for_the_update)
    monkeypatch.setattr(Learner, "update", waits_for_the_batch)
    train(stale(tiny_directory, tmp_path, num_iterations=2))
    assert waited == [True, True]


def test_the_batch_is_played_by_the_weights_from_before_the_update(tiny_directory, tmp_path, monkeypatch):
    """Even if the update is over before the first response is asked for, and what the policy says then is other."""
    updated, collect, update, gaps = threading.Event(), Collector.collect, Learner.update, []

    def after_the_update(self, agent, iteration, *args):
        if iteration == 1:
            assert updated.wait(30.0)
            weights = zip(agent.model.parameters(), learners[0].policy.parameters(), strict=True)
            gaps.append(max(float((a - b).detach().abs().max()) for a, b in weights))
        return collect(self, agent, iteration, *args)

    def tell(self, *args, iteration):
        learners.append(self)
        metrics = update(self, *args, iteration=iteration)
        updated.set()
        return metrics

    learners = []
    monkeypatch.setattr(Collector, "collect", after_the_update)
    monkeypatch.setattr(Learner, "update", tell)
    directory = train(stale(tiny_directory, tmp_path, num_iterations=2))
    assert gaps[0] > 1e-5
    first, second = metrics_of(directory)
    assert first["sampler_gap"] < 1e-4 < second["sampler_gap"], "the trainer's log-probabilities are the policy's"


def test_it_resumes_with_the_batch_in_hand_sampled_anew(tiny_directory, tmp_path, played_by):
    config = stale(tiny_directory, tmp_path, num_iterations=2, checkpoint_every=1)
    train(config)
    played_by.clear()
    directory = train(replace(config, num_iterations=4), resume=True)
    assert played_by == [(2, 2, True), (3, 2, False)]
    assert [line["staleness"] for line in metrics_of(directory)] == [0.0, 1.0, 0.0, 1.0]


@pytest.mark.parametrize("rollout", quick(["barrier", "async"], "async"))
def test_what_is_saved_is_from_before_the_batch_in_hand(rollout, tiny_directory, tmp_path, monkeypatch):
    """The state that batch 2 starts from is saved after iteration 1, though batch 2 is there."""
    states, real = [], Sampling.__call__

    def noted(self, agent, iteration, watcher=None):
        states.append(agent.state_dict())
        return real(self, agent, iteration, watcher)

    monkeypatch.setattr(Sampling, "__call__", noted)
    monkeypatch.setattr(Learner, "update", lambda self, *args, iteration: _interrupted(iteration))
    with pytest.raises(KeyboardInterrupt):
        train(stale(tiny_directory, tmp_path, rollout=rollout, eval_every=0))
    saved = load_checkpoint_state(tmp_path / "run" / "latest")
    assert saved["iteration"] == 1
    assert differing(saved["agent"], states[1]) == []
    assert differing(saved["agent"], states[2]) != []


def _interrupted(iteration):
    if iteration == 1:
        raise KeyboardInterrupt
    return {}


@pytest.mark.soak
@pytest.mark.parametrize("rollout", quick(["barrier", "async"], "async"))
def test_what_fails_beside_an_update_is_raised_behind_it(rollout, tiny_directory, tmp_path, monkeypatch, capfd):
    collect = Collector.collect

    def lost(self, agent, iteration, *args):
        if iteration == 2:
            raise WorkerError("every worker is dead")
        return collect(self, agent, iteration, *args)

    monkeypatch.setattr(Collector, "collect", lost)
    with pytest.raises(WorkerError, match="every worker is dead"):
        train(stale(tiny_directory, tmp_path, rollout=rollout))
    assert "WorkerError after 2 iterations: saved as of 2 iterations" in capfd.readouterr().err
    saved = load_checkpoint_state(tmp_path / "run" / "latest")
    assert (saved["iteration"], saved["learner"]["num_updates"]) == (2, 2)
    assert [line["iteration"] for line in metrics_of(tmp_path / "run")] == [0, 1], "what was learnt is logged"
    monkeypatch.undo()
    train(stale(tiny_directory, tmp_path, rollout=rollout), resume=True)
    assert [line["iteration"] for line in metrics_of(tmp_path / "run")] == [0, 1, 2, 3]


@pytest.mark.parametrize("rollout", quick(["barrier", "async"], "async"))
def test_an_interrupted_update_does_not_wait_for_the_rest_of_a_rollout(rollout, tiny_directory, tmp_path, monkeypatch):
    """The next batch's episodes would go on for ever."""
    turns, real = [], Sampling.__call__

    class Endless:
        """Plays the same turn again and again until it is told to stop."""

        def saw_turn(self, env_id, turn):
            while True:
                turns.append(turn)
                watchers[0].saw_turn(env_id, turn)
                time.sleep(0.01)

        def saw_episode(self, trajectory):
            raise AssertionError("it never ends")

    def endless(self, agent, iteration, watcher=None):
        if iteration == 1:
            watchers.append(watcher)
            watcher = Endless()
        return real(self, agent, iteration, watcher)

    def interrupt(self, *args, iteration):
        while not turns:
            time.sleep(0.01)
        raise KeyboardInterrupt

    watchers = []
    monkeypatch.setattr(Sampling, "__call__", endless)
    monkeypatch.setattr(Learner, "update", interrupt)
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        train(stale(tiny_directory, tmp_path, rollout=rollout))
    assert time.monotonic() - started < 40
    assert not [each for each in threading.enumerate() if each.name.startswith("batch ")]


@pytest.mark.soak
def test_rounds_are_played_within_the_thread(tiny_directory, tmp_path, played_by):
    algorithm = DAPO(max_sampling_rounds=2)
    directory = train(stale(tiny_directory, tmp_path, algorithm=algorithm, num_iterations=2))
    assert [line["gen_rounds"] for line in metrics_of(directory)] == [2.0, 2.0]
    assert [main for _, _, main in played_by] == [True, False]


def test_a_frozen_tower_is_shared_with_the_copy(tiny_directory, tmp_path, monkeypatch):
    shared, real = [], Batches.__init__

    def look(self, config, learner, *args):
        real(self, config, learner, *args)
        weights = zip(self.snapshot.model.parameters(), learner.policy.parameters(), strict=True)
        shared.append({(a is b, b.requires_grad) for a, b in weights})

    monkeypatch.setattr(Batches, "__init__", look)
    train(stale(tiny_directory, tmp_path, num_iterations=1, memory=MemoryConfig(freeze_vision_tower=True)))
    assert shared == [{(True, False), (False, True)}]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"staleness": 2}, "--staleness must be 0, or 1"),
        ({"staleness": -1}, "--staleness must be 0, or 1"),
        ({"staleness": 1, "ppo": replace(PPO, importance_cap=None)}, "without a correction"),
    ],
)
def test_staleness_that_nothing_corrects_for_is_refused(changes, said):
    with pytest.raises(ConfigError, match=said):
        run_config(**changes)


def test_either_correction_will_do():
    run_config(staleness=1, ppo=PPO)
    run_config(staleness=1, ppo=replace(PPO, importance_cap=None, old_logprobs="sampler"))


def test_several_processes_are_refused():
    settings = {"num_groups": 4, "has_adapters": False, "environment": {"WORLD_SIZE": "2"}}
    require_engine("auto", **settings)
    with pytest.raises(ConfigError, match=r"--staleness 1 .* one process, .* 2"):
        require_engine("auto", staleness=1, **settings)
