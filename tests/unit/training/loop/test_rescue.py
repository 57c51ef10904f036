"""Whatever fails in the middle of an iteration, the run is saved as it was before it and goes on from there."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from dataclasses import replace

import pytest
import torch

from agents.hf.sampling_config import SamplingConfig
from tests.unit.slow import quick
from tests.unit.training.batches import run_config
from tests.unit.training.test_run import differing, metrics_of
from training.__main__ import main
from training.algorithms.algorithm import CriticConfig
from training.algorithms.bilevel_gae import BilevelGAE
from training.checkpoints.checkpoint_state import copied, load_checkpoint_state
from training.config.judge_config import JudgeConfig
from training.config.update_config import PPOConfig
from training.config.world_spec import WorldSpec
from training.errors import TerminatedError
from training.loop import loggers, prefetch, trainer
from training.loop.interrupts import stop_on_interrupt
from training.loop.trainer import Trainer
from training.run import train
from training.update.learner import Learner
from vlm_envs.records.run_data import RunReader

LAKE = WorldSpec(env_id="VLM/FrozenLake-v0", kwargs={"representation": "natural_language", "max_turns": 2})


@pytest.fixture
def config(tiny_directory, tmp_path):
    return run_config(
        worlds=(LAKE,),
        output=str(tmp_path),
        model=str(tiny_directory),
        num_iterations=2,
        num_eval_episodes=0,
        checkpoint_every=0,
        judge=JudgeConfig(repetition_penalty=0.1),
        sampling=SamplingConfig(max_new_tokens=4),
        algorithm=BilevelGAE(critic=CriticConfig(num_minibatches=1, learning_rate=1e-3)),
        ppo=PPOConfig(num_minibatches=1, learning_rate=1e-3),
        num_threads=1,
    )


@pytest.fixture(scope="module")
def straight_state():
    """The end of a run in which nothing failed; made once."""
    return {}


def fail_in_the_second(monkeypatch, owner, name):
    """Lets a method do its work and then fail, in the second iteration; a second run is left alone."""
    real, calls = getattr(owner, name), []

    def failing(*args, **kwargs):
        result = real(*args, **kwargs)
        calls.append(name)
        if len(calls) == 2:
            raise RuntimeError("out of memory")
        return result

    monkeypatch.setattr(owner, name, failing)


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        pytest.param(Learner, "_policy_step", id="after the policy's step", marks=pytest.mark.soak),
        pytest.param(Learner, "_critic_step", id="after the critic's step"),
        pytest.param(prefetch, "rollout_metrics", id="after scoring", marks=pytest.mark.soak),
        pytest.param(Trainer, "train_iteration", id="before the log", marks=pytest.mark.soak),
        pytest.param(Trainer, "_log", id="after the log", marks=pytest.mark.soak),
    ],
)
def test_a_run_that_fails_goes_on_as_if_it_had_not(config, straight_state, monkeypatch, capsys, owner, name):
    if not straight_state:
        straight_state |= load_checkpoint_state(train(replace(config, name="straight")) / "latest")
    broken = replace(config, name="broken")
    with monkeypatch.context() as patched:
        fail_in_the_second(patched, owner, name)
        with pytest.raises(RuntimeError, match="out of memory"):
            train(broken)
    shown = capsys.readouterr().err
    assert "RuntimeError in iteration 1: saved as of 1 iterations. Resume with --resume." in shown
    directory = train(broken, resume=True)
    assert differing(straight_state, load_checkpoint_state(directory / "latest")) == []
    assert [line["iteration"] for line in metrics_of(directory)] == [0, 1]


@pytest.mark.parametrize("place", quick(["an update", "an evaluation"], "an update"))
def test_sigterm_saves_at_once_as_a_scheduler_leaves_no_time_for_more(config, monkeypatch, capsys, place):
    config = replace(config, num_eval_episodes=2, name="ended")
    owner, name = (Learner, "update") if place == "an update" else (trainer, "evaluate")
    real, calls = getattr(owner, name), []

    def ended(*args, **kwargs):
        calls.append(name)
        if len(calls) == 2:  # In the second iteration, or in the evaluation after the last one
            os.kill(os.getpid(), signal.SIGTERM)
            raise AssertionError("went on")
        return real(*args, **kwargs)

    words = ["frozenlake_tiny", "--name", config.name, "--output", config.output]
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, ended)
        patched.setattr("training.commands._run_recipe", lambda *_: train(config))
        assert main(words) == 128 + signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, "the handler is put back"
    num_done, where = (1, "in iteration 1") if place == "an update" else (2, "after 2 iterations")
    told = f"TerminatedError {where}: saved as of {num_done} iterations. Resume with --resume."
    assert told in capsys.readouterr().err
    directory = train(config, resume=True)
    assert num_done == 2 or f"Resuming after iteration {num_done} of 2." in capsys.readouterr().out
    assert [line["iteration"] for line in metrics_of(directory)] == [0, 1]
    assert [line["label"] for line in RunReader(directory).evaluations()] == ["before", "after"]


def test_one_of_several_processes_leaves_sigterm_to_their_launcher(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with stop_on_interrupt("step", "nothing"):
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_sigterm_between_short_steps_is_a_request():
    with stop_on_interrupt("step", "nothing") as is_requested:
        os.kill(os.getpid(), signal.SIGTERM)
        assert is_requested()
        with pytest.raises(TerminatedError):
            os.kill(os.getpid(), signal.SIGTERM)


def test_a_child_that_was_forked_ends_by_sigterm_without_a_word(capfd):
    fork = multiprocessing.get_context("fork")
    is_running = fork.Event()
    with stop_on_interrupt("step", "nothing", saves_at_once=True):
        child = fork.Process(target=lambda: (is_running.set(), time.sleep(60)))
        child.start()
        assert is_running.wait(30)
        child.terminate()
        child.join(30)
    assert child.exitcode == -signal.SIGTERM
    assert capfd.readouterr().err == ""


def without_times(lines):
    return [{key: value for key, value in line.items() if not key.endswith("_s")} for line in lines]


@pytest.mark.soak
@pytest.mark.parametrize(
    ("end", "in_world"),
    [
        pytest.param(RuntimeError("engine gone"), 1, id="a failure", marks=pytest.mark.soak),
        pytest.param(KeyboardInterrupt(), 0, id="Ctrl-C twice"),
    ],
)
def test_a_validation_that_does_not_come_to_its_end_is_made_up(config, monkeypatch, capsys, end, in_world):
    """In two worlds, at once or when the first one's numbers stand already; episodes are replaced with the numbers."""
    config = replace(config, worlds=(LAKE, replace(LAKE, name="b")), num_iterations=2, eval_every=1, num_val_episodes=2)
    straight = RunReader(train(replace(config, name="straight")))
    broken, real, calls = replace(config, name="broken"), trainer.evaluate, []

    def ended(*args, **kwargs):
        calls.append(args)
        if len(calls) == in_world + 1:
            raise end
        return real(*args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(trainer, "evaluate", ended)
        with pytest.raises(type(end)):
            train(broken)
    assert f"{type(end).__name__} after 1 iterations: saved as of 1 iterations." in capsys.readouterr().err
    resumed = RunReader(train(broken, resume=True))
    assert without_times(resumed.evaluations()) == without_times(straight.evaluations())
    assert [line["world"] for line in resumed.evaluations()] == [LAKE.env_id, "b"] * 2
    assert resumed.trajectories("iteration 1") == straight.trajectories("iteration 1")
    again = RunReader(train(replace(broken, num_iterations=3), resume=True))
    assert [line["label"] for line in again.evaluations()] == [
        "iteration 1",
        "iteration 1",
        "iteration 2",
        "iteration 2",
        "iteration 3",
        "iteration 3",
    ]


def test_what_cannot_be_saved_leaves_the_last_checkpoint_as_it_was(config, monkeypatch, capsys):
    broken = replace(config, name="broken")
    real = torch.save

    def full(state, path):
        if state["iteration"] > 0:
            path.write_bytes(b"half of it")
            raise OSError("No space left on device")
        real(state, path)

    with monkeypatch.context() as patched:
        patched.setattr(torch, "save", full)
        fail_in_the_second(patched, Learner, "_critic_step")
        with pytest.raises(RuntimeError, match="out of memory"):
            train(broken)
    shown = capsys.readouterr().err
    assert "could not be saved (OSError: No space left on device); the last checkpoint is as of 0 iterations." in shown
    directory = f"{config.output}/broken"
    assert [line["iteration"] for line in metrics_of(train(broken, resume=True))] == [0, 1], directory


def test_a_run_whose_log_cannot_be_opened_lets_go_of_everything(config, monkeypatch):
    def full(*args, **kwargs):
        raise OSError("No space left on device")

    closed = []
    monkeypatch.setattr(loggers, "SummaryWriter", full)
    monkeypatch.setattr(trainer.Collector, "close", lambda self: closed.append("worlds"))
    monkeypatch.setattr(trainer.TurnScorer, "close", lambda self: closed.append("judges"))
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(OSError, match="No space left"):
        train(replace(config, name="unlogged"))
    assert signal.getsignal(signal.SIGINT) is before
    assert closed == ["worlds", "judges"]


def test_a_copied_state_is_safe_from_the_models():
    weight = torch.zeros(2)
    state = {"policy": {"w": weight}, "steps": [torch.ones(1), 3], "pair": (1, "a")}
    before = copied(state)
    weight += 1.0
    assert before["policy"]["w"].tolist() == [0.0, 0.0]
    assert before["steps"][1:] == [3]
    assert before["pair"] == (1, "a")
