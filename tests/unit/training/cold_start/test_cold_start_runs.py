"""Cold starts from the command line: checkpoints, interruptions, continuations."""

from __future__ import annotations

import json
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from agents.hf.hf_agent import load_checkpoint
from tests.unit.slow import quick
from tests.unit.training.batches import run_config
from training.__main__ import main
from training.algorithms.losses import aggregate
from training.loop.loggers import RunConsole
from training.loop.trainer import Trainer
from training.recipes.shipped import FIRST_STARTS, RECIPES
from training.run import train
from vlm_envs.records.run_data import RunReader

CHECKOUT = Path(__file__).parents[4]


def short_cold_start(tmp_path: Path) -> list[str]:
    words = ["frozenlake_tiny", "--output", str(tmp_path), "--name", "x", "--num-val-episodes", "2"]
    words += ["--cold-start.num-steps", "4", "--cold-start.num-first-turn-steps", "1"]
    words += ["--cold-start.suboptimal-rate", "0.5"]
    return [*words, "--cold-start.batch-size", "2", "--sampling.max-new-tokens", "4", "--num-threads", "1"]


def test_a_cold_start_is_a_checkpoint_to_start_from(tmp_path, capsys):
    assert main(["cold_start", *short_cold_start(tmp_path)]) == 0
    directory = tmp_path / "x_cold_start"
    told = f"Cold start: {directory}\nTrain from it: python -m training frozenlake_tiny --model {directory}\n"
    assert capsys.readouterr().out.endswith(told)
    made_from = json.loads((directory / "provenance.json").read_text())
    assert "num_steps_done" not in made_from, "it is whole"
    assert 0.0 <= made_from["validation_success"] <= 1.0
    assert made_from["sampling"]["max_new_tokens"] == 4
    config = run_config(
        output=str(tmp_path), model=str(directory), num_iterations=0, num_eval_episodes=2, num_threads=1
    )
    assert (train(replace(config, name="y")) / "latest" / "model" / "config.json").is_file()


@pytest.fixture
def made_before(tiny_directory, monkeypatch):
    """A random model that is there already: texts for its tokenizer take a second to play."""
    monkeypatch.setattr("training.cold_start.cold_start_loop.save_tiny", lambda to, *_, **__: _copy(tiny_directory, to))


def _copy(start: Path, to: str) -> None:
    shutil.copytree(start, to, dirs_exist_ok=True)


@pytest.mark.usefixtures("made_before")
@pytest.mark.soak
def test_ctrl_c_in_a_cold_start_saves_what_was_learnt(tmp_path, capsys, monkeypatch):
    advance = RunConsole.advance

    def interrupted(self, step, metrics, shown):
        if step == 1:
            os.kill(os.getpid(), signal.SIGINT)
        advance(self, step, metrics, shown)

    monkeypatch.setattr(RunConsole, "advance", interrupted)
    handler = signal.getsignal(signal.SIGINT)
    assert main(["cold_start", *short_cold_start(tmp_path)]) == 130
    assert signal.getsignal(signal.SIGINT) is handler
    shown = capsys.readouterr()
    assert "Interrupted after 2 of 4 steps of the cold start; the model is saved." in shown.err
    directory = tmp_path / "x_cold_start"
    made_from = json.loads((directory / "provenance.json").read_text())
    assert (made_from["num_steps_done"], made_from["validation_success"]) == (2, None)
    kept = (directory / "model.safetensors").read_bytes()
    assert main(["cold_start", *short_cold_start(tmp_path)]) == 2
    assert f"error: {directory} already exists. Choose another --name" in capsys.readouterr().err
    assert (directory / "model.safetensors").read_bytes() == kept
    monkeypatch.setattr(RunConsole, "advance", advance)
    told = f"{directory} comes from a cold start that was interrupted after 2 of 4 steps."
    more = [*short_cold_start(tmp_path), "--name", "y", "--cold-start.start-from"]
    assert main(["cold_start", *more, str(directory)]) == 0
    assert told in capsys.readouterr().out.splitlines()
    assert main(["cold_start", *more, str(tmp_path / "y_cold_start"), "--name", "z"]) == 0
    assert "was interrupted" not in capsys.readouterr().out, "that one is whole"


@pytest.fixture
def ctrl_c():
    """SIGINT interrupts, as in a terminal; what a shell starts in the background inherits that it is ignored."""
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, inherited)


@pytest.mark.usefixtures("made_before")
@pytest.mark.parametrize(
    ("step", "said"),
    quick([(3, "after 4 of 4 steps"), (None, "in the validation, after 4 of 4 steps")], (3, "after 4 of 4 steps")),
)
def test_ctrl_c_after_the_last_step_of_a_cold_start_loses_nothing(ctrl_c, tmp_path, capsys, monkeypatch, step, said):
    """In the last step, and while what it learnt is measured."""
    advance = RunConsole.advance

    def interrupted(*args, **kwargs):
        os.kill(os.getpid(), signal.SIGINT)

    def interrupted_in_step(self, number, metrics, shown):
        if number == step:
            interrupted()
        advance(self, number, metrics, shown)

    monkeypatch.setattr(RunConsole, "advance", interrupted_in_step)
    monkeypatch.setattr("training.cold_start.cold_start_loop.evaluate", interrupted)
    assert main(["cold_start", *short_cold_start(tmp_path)]) == 130
    directory = tmp_path / "x_cold_start"
    shown = capsys.readouterr().err
    assert f"Interrupted {said} of the cold start; the model is saved. Train from it with" in shown
    assert f"--model {directory}" in shown
    made_from = json.loads((directory / "provenance.json").read_text())
    assert (made_from["num_steps_done"], made_from["validation_success"]) == (4, None)
    assert (directory / "model.safetensors").is_file()


@pytest.mark.soak
@pytest.mark.usefixtures("made_before")
def test_a_start_that_another_goes_on_from_is_made_by_its_name(tmp_path, monkeypatch, capsys):
    small = replace(RECIPES["frozenlake_tiny"](), name="mix_first_steps")  # the mix needs drivers
    monkeypatch.setitem(FIRST_STARTS, "mix_first_steps", lambda: small)
    _, *settings = short_cold_start(tmp_path)
    named = settings.index("--name")
    assert main(["cold_start", "mix_first_steps", *settings[:named], *settings[named + 2 :]]) == 0
    directory = tmp_path / "mix_first_steps_cold_start"
    assert (directory / "model.safetensors").is_file()
    go_on = f"Continue from it: python -m training cold_start mix_tiny --cold-start.start-from {directory}\n"
    told = capsys.readouterr().out
    assert told.startswith(f"Imitates for 4 steps, into {directory}\n"), "before worlds and tokenizers are made"
    assert told.endswith(f"Cold start: {directory}\n{go_on}")
    whatever = tmp_path / "mix_first_steps-2_cold_start" / "note.txt"
    whatever.parent.mkdir()
    whatever.write_text("mine")
    assert main(["cold_start", "mix_first_steps", *settings[:named], *settings[named + 2 :]]) == 0
    assert capsys.readouterr().out.startswith(
        f"Imitates for 4 steps, into {tmp_path / 'mix_first_steps-3_cold_start'}\n"
    )
    assert whatever.read_text() == "mine"


def test_one_that_was_made_meanwhile_is_not_replaced(tmp_path, capsys, monkeypatch):
    def another(config):
        (tmp_path / "x_cold_start").mkdir()
        (tmp_path / "x_cold_start" / "config.json").write_text("{}")

    monkeypatch.setattr("training.loop.interrupts.prepare", another)
    assert main(["cold_start", *short_cold_start(tmp_path)]) == 2
    assert "x_cold_start already exists." in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "x_cold_start").iterdir()] == ["config.json"]


def test_a_cold_start_goes_on_from_a_checkpoint(tmp_path):
    start = CHECKOUT / "training" / "recipes" / "checkpoints" / "frozenlake_tiny"
    assert main(["cold_start", *short_cold_start(tmp_path), "--cold-start.start-from", str(start)]) == 0
    before, after = (load_file(each / "model.safetensors") for each in (start, tmp_path / "x_cold_start"))
    assert before.keys() == after.keys()
    moved = max(float((after[name] - before[name]).abs().max()) for name in before)
    assert 0 < moved < 0.01  # four small steps away, not new weights
    assert (tmp_path / "x_cold_start" / "tokenizer.json").read_bytes() == (start / "tokenizer.json").read_bytes()
    made_from = json.loads((tmp_path / "x_cold_start" / "provenance.json").read_text())
    assert made_from["cold_start"]["start_from"] == str(start)
    assert made_from["started_from"] == json.loads((start / "provenance.json").read_text())


@pytest.mark.soak
@pytest.mark.usefixtures("made_before")
def test_a_run_stopped_before_its_first_iteration_keeps_its_cold_start(tmp_path, monkeypatch):
    command = [*short_cold_start(tmp_path), "--model", "None", "--num-eval-episodes", "2", "--num-iterations", "2"]
    command += ["--num-groups", "2", "--group-size", "2", "--ppo.num-minibatches", "1"]
    command += ["--algorithm.critic.num-minibatches", "2"]

    def stopped(self):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "train_iteration", stopped)
        assert main(command) == 130
    monkeypatch.setattr("training.run.make_cold_start", lambda *_: pytest.fail("the cold start is made again"))
    assert main([*command, "--resume"]) == 0
    lines = [line for line in RunReader(tmp_path / "x").metrics() if line["phase"] == "rl"]
    assert [line["iteration"] for line in lines] == [0, 1]
    labels = [line["label"] for line in RunReader(tmp_path / "x").evaluations()]
    assert labels == ["before", "after"]


@pytest.mark.soak
@pytest.mark.usefixtures("made_before")
def test_gradients_that_stay_infinite_stop_a_cold_start_with_finite_weights_on_disk(tmp_path, monkeypatch, capsys):
    losses = iter([1.0, torch.nan, 1.0, torch.nan, torch.nan])

    def exploding(*args, **kwargs):
        return next(losses) * aggregate(*args, **kwargs)

    monkeypatch.setattr("training.update.supervised_steps.aggregate", exploding)
    more = ["--cold-start.max-nonfinite-steps", "2", "--cold-start.num-steps", "9"]
    assert main(["cold_start", *short_cold_start(tmp_path), *more]) == 1
    shown = capsys.readouterr().err
    assert "those of the cold start had norm nan in 2 steps in a row" in shown
    directory = tmp_path / "x_cold_start"
    assert f"ended after 4 of 9 steps; the model is saved. Train from it with --model {directory}." in shown
    assert json.loads((directory / "provenance.json").read_text())["num_steps_done"] == 4
    loaded, _ = load_checkpoint(directory)
    assert all(torch.isfinite(weight).all() for weight in loaded.parameters())
