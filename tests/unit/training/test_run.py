"""Whole runs through the command line, on an untrained tiny model: every recipe, interruption, exact resumption."""

from __future__ import annotations

import json
import os
import shutil
import signal
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from agents.hf.hf_agent import load_checkpoint
from agents.hf.sampling_config import SamplingConfig
from tests.unit.episodes import SHORT
from tests.unit.slow import quick
from tests.unit.training.batches import NO_JUDGE, run_config
from training import run
from training.__main__ import main
from training.algorithms.bilevel_gae import BilevelGAE
from training.algorithms.gae import GAE
from training.checkpoints.checkpoint_files import num_iterations_done
from training.checkpoints.checkpoint_state import load_checkpoint_state
from training.config.update_config import PPOConfig
from training.config.world_spec import WorldSpec
from training.loop.trainer import Trainer
from training.recipes.shipped import OF_A_WORLD, RECIPES
from training.run import train
from training.update.learner import Learner
from vlm_envs.records.folder_lock import alone_in
from vlm_envs.records.run_data import RunReader


@pytest.fixture
def arguments(tiny_directory, tmp_path):
    """Returns the command line of a run of a few seconds."""

    def command_line(recipe: str, name: str, *more: str) -> list[str]:
        settings = {
            "--name": name,
            "--output": str(tmp_path),
            "--model": str(tiny_directory),
            "--num-iterations": "1",
            "--num-groups": "2",
            "--group-size": "2",
            "--num-eval-episodes": "1",
            "--num-val-episodes": "2",
            "--checkpoint-every": "2",
            "--num-threads": "1",
            "--sampling.max-new-tokens": "8",
            "--ppo.num-minibatches": "1",
            "--ppo.micro-batch-size": "3",
            "--ppo.kl-coef": "0.001",
            "--algorithm.critic.trunk": "own",
            "--algorithm.critic.num-minibatches": "2",
            "--algorithm.critic.warmup-iterations": "0",
        }
        settings |= dict(zip(more[::2], more[1::2], strict=True))
        has_critic = settings.get("--algorithm") != "grpo" and RECIPES[recipe]().algorithm.critic_config is not None
        if not has_critic:
            settings = {name: value for name, value in settings.items() if not name.startswith("--algorithm.critic.")}
        return [recipe, *(word for pair in settings.items() for word in pair)]

    return command_line


def metrics_of(directory: Path) -> list[dict[str, object]]:
    return [line for line in RunReader(directory).metrics() if line["phase"] == "rl"]


def differing(first: object, second: object, path: str = "") -> list[str]:
    """Returns where two nested states differ, bit by bit; elapsed time aside."""
    if isinstance(first, dict):
        assert isinstance(second, dict)
        assert first.keys() == second.keys(), path
        return [
            where
            for key in first
            if key != "elapsed_s"
            for where in differing(first[key], second[key], f"{path}/{key}")
        ]
    if isinstance(first, list | tuple):
        assert isinstance(second, list | tuple)
        return [
            where
            for i, (a, b) in enumerate(zip(first, second, strict=True))
            for where in differing(a, b, f"{path}/{i}")
        ]
    equal = torch.equal(first, second) if isinstance(first, torch.Tensor) else first == second
    return [] if equal else [path]


LOGGED = {
    "frozenlake_tiny": set(),
    "navigation_tiny": {"thought_score"},
    "videoqa_tiny": set(),
    "zoomqa_tiny": {"tool_used"},
}
"""What some recipes log that not all do: of thoughts that tell what is seen, and of tools."""
REPORTED = {name: [pytest.mark.report] for name in ("frozenlake_tiny", "zoomqa_tiny")}


@pytest.mark.parametrize(
    "recipe", [pytest.param(name, marks=REPORTED.get(name, [])) for name in RECIPES if name not in OF_A_WORLD]
)
def test_every_recipe_runs(recipe, arguments, tmp_path, capsys):
    # In this process: engines take seconds to start, and a run starts its workers several times
    validates = recipe == "frozenlake_tiny"  # as any other would
    more = ("--num-iterations", "2", "--eval-every", "1") if validates else ()
    assert main(arguments(recipe, "smoke", *more, "--worlds.0.workers", "serial")) == 0
    directory = tmp_path / "smoke"
    assert [line["iteration"] for line in metrics_of(directory)] == ([0, 1] if validates else [0])
    if recipe in LOGGED:
        assert {"thought_score", "tool_used"} & metrics_of(directory)[0].keys() == LOGGED[recipe]
    labels = [line["label"] for line in RunReader(directory).evaluations()]
    num_worlds = len(RECIPES[recipe]().worlds)
    assert labels[::num_worlds] == ["before", *(["iteration 1", "iteration 2"] if validates else []), "after"]
    assert len(labels) == (4 if validates else 2) * num_worlds
    written = {path.name for path in directory.iterdir()}
    # One judges texts, and of the other no page is shown before it is searched for
    pictures = set() if recipe in ("judging_tiny", "docqa_tiny") else {"images"}
    assert {"config.json", "metrics.jsonl", "latest", "tensorboard", "trajectories"} | pictures <= written
    shown = capsys.readouterr().out
    assert "after: VLM/" in shown
    assert "Report: " in shown
    told = f"Best:   {directory / 'best' / 'model'}, best on validation levels, of "
    assert shown.splitlines()[-1].startswith(told) == validates
    assert Path(shown.partition("Report: ")[2].splitlines()[0]).is_file()
    config = json.loads((directory / "config.json").read_text())
    assert config["num_groups"] == 2 and config["versions"]["torch"] == torch.__version__


@pytest.mark.parametrize("name", quick(["grpo", "token_gae", "turn_gae"], "grpo"))
def test_every_algorithm_runs(name, arguments, tmp_path):
    assert main(arguments("frozenlake_tiny", "run", "--algorithm", name)) == 0
    (line,) = metrics_of(tmp_path / "run")
    assert ("value_loss" in line) == (name != "grpo")
    expected = {"success", "reward", "format_rate", "response_tokens", "cut_rate", "zero_variance_groups", "kl"}
    assert expected | {"tokens_per_s", "turns_per_s", "untrainable_rows", "unavailable_turns"} <= line.keys()
    # All siblings of an untrained model earn the same, so that GRPO has nothing to learn from
    assert line["zero_variance_groups"] == 1.0
    assert ("policy_loss" in line) == ("sampler_gap" in line) == (name != "grpo")


@pytest.mark.soak
def test_a_mix_of_worlds_runs(tiny_directory, tmp_path):
    worlds = tuple(WorldSpec(env_id=f"VLM/{name}-v0", kwargs=dict(SHORT)) for name in ("FrozenLake", "Sokoban"))
    config = run_config(
        worlds=worlds,
        judge=NO_JUDGE,
        output=str(tmp_path),
        model=str(tiny_directory),
        num_iterations=1,
        num_eval_episodes=2,
        ppo=PPOConfig(num_minibatches=2, old_logprobs="trainer", importance_cap=2.0),
        sampling=SamplingConfig(max_new_tokens=5, temperature=0.8, top_p=0.9),
    )
    directory = train(config)
    (line,) = metrics_of(directory)
    assert {"success/VLM/FrozenLake-v0", "success/VLM/Sokoban-v0"} <= line.keys()
    assert [each["env_id"] for each in RunReader(directory).evaluations()] == [spec.env_id for spec in worlds] * 2


def test_a_killed_run_goes_on_as_if_it_had_never_stopped(arguments, tmp_path, monkeypatch):
    """A copy of the run's folder is what a kill would leave; tests/soak/test_killed_runs.py kills processes."""
    more = ("--num-iterations", "2", "--checkpoint-every", "1", "--judge.repetition-penalty", "0.1")
    runs = [tmp_path / name / "run" for name in ("straight", "killed")]
    straight, killed = (
        [*arguments("frozenlake_tiny", "run", *more, "--output", str(run.parent)), "--algorithm.bootstrap-truncated"]
        for run in runs
    )
    after_iteration = Trainer._after_iteration

    def copy_in_the_second(trainer, console):
        if trainer.iteration == 2:
            shutil.copytree(*runs)
        after_iteration(trainer, console)

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "_after_iteration", copy_in_the_second)
        assert main(straight) == 0
    assert [line["iteration"] for line in metrics_of(runs[1])] == [0, 1]
    assert load_checkpoint_state(runs[1] / "latest")["iteration"] == 1
    assert main([*killed, "--resume"]) == 0
    states = [load_checkpoint_state(run / "latest") for run in runs]
    assert states[0]["learner"].keys() >= {"policy", "critic", "policy_optimizer", "critic_optimizer"}
    assert differing(*states) == []
    models = [run / "latest" / "model" / "model.safetensors" for run in runs]
    assert models[0].read_bytes() == models[1].read_bytes()
    start = Path(straight[straight.index("--model") + 1]) / "model.safetensors"
    assert models[0].read_bytes() != start.read_bytes(), "the policy did learn"
    lines = [metrics_of(run) for run in runs]
    assert [line["iteration"] for line in lines[1]] == [0, 1], "each once"
    for first, second in zip(*lines, strict=True):
        for name in ("reward", "value_loss", "turn_end_explained_variance"):
            assert first[name] == second[name]
    labels = [line["label"] for line in RunReader(runs[1]).evaluations()]
    assert labels == ["before", "after"]


@pytest.mark.soak
def test_a_run_that_another_process_is_training_is_left_alone(arguments, tmp_path, capsys):
    command = arguments("frozenlake_tiny", "busy", "--num-iterations", "1", "--num-eval-episodes", "0")
    assert main(command) == 0
    directory = tmp_path / "busy"
    longer = [*command, "--num-iterations", "2", "--resume"]
    before = metrics_of(directory)
    with alone_in(directory):
        assert main(longer) == 2
        told = f"Another command is writing to {directory} (process {os.getpid()})."
        assert told in capsys.readouterr().err and metrics_of(directory) == before
    assert main(longer) == 0
    assert [line["iteration"] for line in metrics_of(directory)] == [0, 1]
    assert not [*tmp_path.glob(".busy*")], "and nothing of the lock is left"


def test_of_two_that_begin_a_run_at_once_one_is_refused(arguments, tmp_path, monkeypatch, capsys):
    command = arguments("frozenlake_tiny", "both", "--num-iterations", "1", "--num-eval-episodes", "0")
    loads = []

    def load_slowly(*words):
        loads.append(words)
        if len(loads) == 1:
            assert main(command) == 2, "the second, while the first one loads"
        return load(*words)

    load = run.load_for_training
    monkeypatch.setattr(run, "load_for_training", load_slowly)
    assert main(command) == 0
    assert "Another command is writing to" in capsys.readouterr().err
    assert len(metrics_of(tmp_path / "both")) == 1

    @contextmanager
    def late(directory):
        shutil.copytree(tmp_path / "both", directory)
        with alone_in(directory):
            yield

    monkeypatch.setattr(run, "alone_in", late)
    assert main(["late" if word == "both" else word for word in command]) == 2
    assert "already holds a run" in capsys.readouterr().err, "somebody else was faster"


def test_ctrl_c_finishes_the_iteration_saves_and_says_how_to_go_on(arguments, tmp_path, capsys, monkeypatch):
    command = arguments("frozenlake_tiny", "stopped", "--num-iterations", "3", "--checkpoint-every", "0")
    update = Learner.update

    def interrupted(self, *args, iteration, **kwargs):
        if iteration == 0:
            os.kill(os.getpid(), signal.SIGINT)
        return update(self, *args, iteration=iteration, **kwargs)

    monkeypatch.setattr(Learner, "update", interrupted)
    handler = signal.getsignal(signal.SIGINT)
    assert main(command) == 0
    assert signal.getsignal(signal.SIGINT) is handler, "the handler is put back"
    shown = capsys.readouterr().out
    assert "Stopping after this iteration" in shown
    told = f"python -m training frozenlake_tiny --output {tmp_path} --name stopped --resume"
    assert f"Interrupted after iteration 1; saved. Resume with `{told}`." in shown
    assert load_checkpoint_state(tmp_path / "stopped" / "latest")["iteration"] == 1
    assert main(told.split()[3:]) == 0
    assert [line["iteration"] for line in metrics_of(tmp_path / "stopped")] == [0, 1, 2]


def test_ctrl_c_in_the_last_iteration_or_evaluation_says_that_only_the_evaluation_is_left(
    arguments, tmp_path, capsys, monkeypatch
):
    update, evaluated = Learner.update, Trainer._evaluate

    def interrupted(self, *args, **kwargs):
        os.kill(os.getpid(), signal.SIGINT)
        return update(self, *args, **kwargs)

    def interrupted_after(self, label, *args, **kwargs):
        if label == "after":
            os.kill(os.getpid(), signal.SIGINT)
        return evaluated(self, label, *args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(Learner, "update", interrupted)
        assert main(arguments("frozenlake_tiny", "stopped")) == 0
    stopping, _, interrupted_line = capsys.readouterr().out.partition("Interrupted")
    assert "evaluation is left" in interrupted_line and "evaluation is left" not in stopping
    monkeypatch.setattr(Trainer, "_evaluate", interrupted_after)
    assert main(["frozenlake_tiny", "--output", str(tmp_path), "--name", "stopped", "--resume"]) == 0
    shown = capsys.readouterr().out
    assert "evaluation is left" in shown and "Interrupted" not in shown
    assert RunReader(tmp_path / "stopped").evaluations()[-1]["label"] == "after"


def test_a_run_says_how_long_and_where_it_is_and_whose_name_it_could_not_have(arguments, tmp_path, capsys):
    command = arguments("frozenlake_tiny", "", "--num-iterations", "0", "--num-eval-episodes", "0")
    command = [*command[: command.index("--name")], *command[command.index("--name") + 2 :]]
    directory, second = tmp_path / "frozenlake_tiny", tmp_path / "frozenlake_tiny-2"
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("frozenlake_tiny (0 iterations): ") and "120" not in shown.splitlines()[0]
    assert f"Run: {directory}." in shown and f"vlm_envs report {directory} --live" in shown
    assert main(command) == 0
    assert f"Run: {second}, since {directory} holds another run." in capsys.readouterr().out
    assert second.is_dir()


def test_a_second_ctrl_c_stops_at_once(arguments, monkeypatch, capsys):
    def interrupted_twice(self, *args, **kwargs):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("went on")

    monkeypatch.setattr(Learner, "update", interrupted_twice)
    assert main(arguments("frozenlake_tiny", "stopped")) == 130
    assert "Stopped at once" in capsys.readouterr().err


def test_a_run_is_never_overwritten(arguments, tmp_path, capsys):
    directory = tmp_path / "taken"
    directory.mkdir()
    (directory / "metrics.jsonl").write_text("")
    assert main(arguments("frozenlake_tiny", "taken")) == 2
    assert "taken already holds a run. Add --resume to resume it, or choose" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["frozenlake_tny"], "Did you mean 'frozenlake_tiny'?"),
        (["cold_start"], "cold_start takes a recipe"),
        (["cold_start", "frozenlake_tny"], "Did you mean 'frozenlake_tiny'?"),
        (["frozenlake_tiny", "--model", "no/such/model"], "No checkpoint at no/such/model"),
        (["frozenlake_tiny", "--resume", "--name", "no_such_run"], "No run in"),
    ],
)
def test_mistakes_on_the_command_line_are_explained(words, said, tmp_path, capsys):
    output = ["--output", str(tmp_path)] if words[0] in RECIPES else []
    assert main([*words, *output]) == 2
    assert [said in line for line in capsys.readouterr().err.splitlines()] == [True]


def test_settings_that_cannot_work_are_explained(capsys):
    assert main(["frozenlake_tiny", "--num-groups", "0"]) == 2
    assert "--num-groups must be at least 1; got 0." in capsys.readouterr().err


def test_help_lists_recipes_and_commands(capsys):
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in (*RECIPES, "cold_start", "curate", "plan"))


def test_another_configuration_cannot_go_on_with_a_run(arguments, capsys):
    assert main(arguments("frozenlake_tiny", "run")) == 0
    resumed = [*arguments("frozenlake_tiny", "run", "--num-val-episodes", "3"), "--resume"]
    assert main(resumed) == 0, "how much is measured may change"
    for setting, value, own in (("--ppo.learning-rate", "0.5", "0.0001"), ("--group-size", "4", "2")):
        assert main([*arguments("frozenlake_tiny", "run", setting, value), "--resume"]) == 2
        said = capsys.readouterr().err
        assert "was started with another configuration" in said
        assert f"{setting}: the run has {own}, requested is {value}" in said
    assert main([*arguments("frozenlake_tiny", "run"), "--worlds.0.kwargs.max-turns", "7", "--resume"]) == 2
    assert "--worlds.0.kwargs.max-turns: the run has nothing, requested is 7" in capsys.readouterr().err


@pytest.mark.soak
def test_a_run_goes_on_with_its_own_options_and_none_need_be_repeated(arguments, tmp_path, capsys, monkeypatch):
    command = [*arguments("frozenlake_tiny", "run", "--num-iterations", "2"), "--worlds.0.kwargs.max-turns", "2"]
    update = Learner.update

    def interrupted(self, *args, **kwargs):
        os.kill(os.getpid(), signal.SIGINT)
        return update(self, *args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(Learner, "update", interrupted)
        assert main(command) == 0
    assert main(["frozenlake_tiny", "--resume", "--output", str(tmp_path), "--name", "run"]) == 0
    assert [line["iteration"] for line in metrics_of(tmp_path / "run")] == [0, 1]
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (config["num_groups"], config["worlds"][0]["kwargs"]["max_turns"]) == (2, 2)
    assert [each["at"] for each in config["resumed"]] == [1]


@pytest.mark.soak
def test_a_finished_run_can_be_extended(arguments, tmp_path, capsys):
    """Learning rates that fall follow the longer run's line from there on; what was learnt stays."""
    command = arguments("frozenlake_tiny", "run")
    assert main(command) == 0
    first = metrics_of(tmp_path / "run")
    resume = ["frozenlake_tiny", "--resume", "--output", str(tmp_path), "--name", "run"]
    assert main(resume) == 0
    assert "All 1 iterations are done; the run is only evaluated again." in capsys.readouterr().out
    assert main([*resume, "--num-iterations", "3"]) == 0
    lines = metrics_of(tmp_path / "run")
    assert [line["iteration"] for line in lines] == [0, 1, 2]
    assert [line["reward"] for line in lines[:1]] == [line["reward"] for line in first]
    assert [each["label"] for each in RunReader(tmp_path / "run").evaluations()] == ["before", "after"]
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["num_iterations"] == 3
    assert config["resumed"][-1]["changes"] == {"num_iterations": [1, 3]}
    state = load_checkpoint_state(tmp_path / "run" / "latest")
    # The last iteration's, of a line from 1e-4 to a tenth of it over three: 0.1 + 0.9 * (1 - 2/3)
    adamw = state["learner"]["policy_optimizer"]["adamw"]
    assert adamw["param_groups"][0]["lr"] == pytest.approx(1e-4 * (0.1 + 0.9 / 3))
    assert num_iterations_done(tmp_path / "run" / "latest") == 3
    assert main([*resume, "--num-iterations", "2"]) == 2
    assert "--num-iterations 2: the run has already done 3." in capsys.readouterr().err


@pytest.mark.soak
def test_gradients_that_stay_infinite_stop_a_run_with_finite_weights_on_disk(arguments, tmp_path, monkeypatch, capsys):
    def exploding(self, batch, outputs):
        credit = GAE.credit(self, batch, outputs)
        return replace(credit, advantages_BT=torch.full_like(credit.advantages_BT, torch.inf))

    monkeypatch.setattr(BilevelGAE, "credit", exploding)
    more = ("--num-iterations", "9", "--checkpoint-every", "0", "--ppo.max-nonfinite-steps", "3")
    assert main(arguments("frozenlake_tiny", "run", *more)) == 1
    shown = capsys.readouterr().err
    assert "those of the policy had norm nan in 3 steps in a row" in shown
    assert "Lower the learning rate" in shown
    model = tmp_path / "run" / "latest" / "model"
    assert f"This was iteration 2; to continue with other settings, start a new run with --model {model}" in shown
    assert load_checkpoint_state(tmp_path / "run" / "latest")["learner"]["num_updates"] == 0
    lines = metrics_of(tmp_path / "run")
    assert [(line["skipped_steps"], line["grad_norm"]) for line in lines] == [(1, None)] * 2
    loaded, _ = load_checkpoint(model)
    assert all(torch.isfinite(weight).all() for weight in loaded.parameters())
    monkeypatch.undo()
    assert main(arguments("frozenlake_tiny", "again", "--model", str(model))) == 0
