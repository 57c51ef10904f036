"""Runs of an experiment: once each, in processes of their own, resumed where they were interrupted."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from agents.hf.sampling_config import SamplingConfig
from benchmarks.__main__ import main
from benchmarks.experiments import measuring, running
from benchmarks.experiments.experiment import Claim, Experiment, Variant
from benchmarks.experiments.records import Record, load_records
from benchmarks.experiments.running import Runner
from tests.unit.benchmarks.models.short_search import shorten_search
from tests.unit.training.batches import NO_JUDGE
from tests.unit.training.reports import empty_reports
from training.__main__ import main as training_main
from training.config.world_spec import WorldSpec
from vlm_envs.errors import ConfigError
from vlm_envs.records.run_data import RunReader

LAKE = WorldSpec(env_id="VLM/FrozenLake-v0", kwargs={"prompt_format": "no_think", "max_turns": 2})
RECIPES = """
from agents.hf.sampling_config import SamplingConfig
from tests.unit.benchmarks.experiments.test_running_experiments import LAKE
from tests.unit.training.batches import run_config
from training.algorithms.grpo import GRPO
from training.config.run_config import RunConfig
from training.stages.stages_config import Stage, StagesConfig


def lake() -> RunConfig:
    sampling = SamplingConfig(max_new_tokens=4)
    levels = {"num_eval_episodes": 3, "num_val_episodes": 0, "num_threads": 1}
    return run_config(worlds=(LAKE,), algorithm=GRPO(), num_iterations=1, sampling=sampling, model=MODEL, **levels)


def staged() -> StagesConfig:
    return StagesConfig(name="staged", model="start", stages=(Stage(name="rl", run=lake()),))
"""


class InThisThread:
    """Runs what is submitted at once."""

    def __init__(self, *_):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def submit(self, function, *arguments):
        done = Future()
        try:
            done.set_result(function(*arguments))
        except BaseException as error:
            done.set_exception(error)
        return done


@pytest.fixture(autouse=True)
def without_reports(monkeypatch):
    """Has runs end in empty reports, and gives torch its threads back."""
    shorten_search(monkeypatch)
    threads = torch.get_num_threads()
    with empty_reports():
        yield
    torch.set_num_threads(threads)


@pytest.fixture
def recipes(tiny_directory, tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "small_recipes", raising=False)
    path = tmp_path / "small_recipes.py"
    path.write_text(RECIPES.replace("MODEL", repr(str(tiny_directory))))
    return path


@pytest.fixture
def claim(recipes, tiny_directory):
    """An experiment of two variants from a start that is there, which take seconds."""
    return Experiment(
        name="small",
        question="Does one beat the other?",
        variants={
            "one": Variant(command=f"--recipe {recipes}:staged", title="one"),
            "other": Variant(command=f"--recipe {recipes}:staged --stages.rl.algorithm.scale none", title="other"),
        },
        seeds=(1, 2, 3),
        claim=Claim(
            title="Small",
            text="One beats the other.",
            setting="Here.",
            method="one",
            worlds=(LAKE,),
            sampling=SamplingConfig(max_new_tokens=4),
            judge=NO_JUDGE,
            start=str(tiny_directory),
            num_test_levels=2,
        ),
    )


@pytest.fixture
def commands(monkeypatch):
    """Runs what would be in processes of its own in this one, and returns the programs that ran."""
    ran = []

    def run(runner, words, log):
        _, program, *rest = words
        ran.append(program)
        if program == "training":
            return training_main(rest)
        measuring.main(rest)
        return 0

    monkeypatch.setattr(Runner, "_wait", run)
    monkeypatch.setattr(running, "ThreadPoolExecutor", InThisThread)
    return ran


@pytest.fixture
def called(tmp_path, monkeypatch):
    """Calls the command with an experiment in place of the shipped ones."""

    def call(experiment, *more):
        for module in (running, measuring):
            monkeypatch.setattr(module, "find_experiments", lambda name: [experiment])
        places = ["--runs", str(tmp_path / "runs"), "--results", str(tmp_path / "results"), "--num-at-once", "1"]
        return main(["experiment", "vagen", *places, *more])

    return call


@pytest.mark.soak
def test_every_variant_is_run_once_per_seed_from_one_start_and_not_again(claim, called, commands, tmp_path, capsys):
    assert called(claim, "--seeds", "1") == 0
    records = load_records(tmp_path / "results", "small")
    assert [(each.variant, each.seed) for each in records] == [("one", 1), ("other", 1), ("start", 0)]
    assert [len(each.outcomes) for each in records] == [2, 2, 2]
    one, _, start = records
    assert one.num_episodes == 4 and start.num_episodes == 0 and one.made_by["commit"] and one.measures["num_turns"]
    runs = tmp_path / "runs" / "small"
    begun = [RunReader(runs / f"{name}-1" / "1-rl").config["model"] for name in ("one", "other")]
    assert begun == [claim.claim.start] * 2
    assert "2/2 small" in capsys.readouterr().err
    num_run = len(commands)
    assert called(claim, "--seeds", "1") == 0
    assert len(commands) == num_run and "2 of 2 runs" in capsys.readouterr().err
    assert called(claim, "--table") == 0
    assert "1 of 3 seeds" in capsys.readouterr().out


@pytest.mark.soak
def test_a_run_that_was_interrupted_is_resumed_and_a_finished_one_is_only_measured(
    recipes, called, commands, tmp_path, monkeypatch
):
    experiment = Experiment(
        name="lakes",
        question="?",
        variants={"lake": Variant(command=f"--recipe {recipes}:lake")},
        seeds=(0,),
        has_baselines=True,
    )

    def stopped(words):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(measuring, "main", stopped)
        assert called(experiment) == 130
    assert commands == ["training", "benchmarks.experiments.measuring"]
    metrics = tmp_path / "runs" / "lakes" / "lake-0" / "metrics.jsonl"
    before = metrics.read_bytes()
    assert called(experiment) == 0
    assert commands[2:] == ["benchmarks.experiments.measuring"] and metrics.read_bytes() == before
    (record,) = load_records(tmp_path / "results", "lakes")
    assert record.setup and len(record.worlds[0].greedy_after) == 3
    (tmp_path / "results" / "lakes" / "lake-0.json").unlink()
    other = replace(experiment, options="--group-size 4")
    assert called(other) == 2, "the run is finished with other settings"
    longer = replace(experiment, options="--num-iterations 2")
    assert called(longer) == 2


def test_a_failed_run_does_not_lose_the_others(claim, called, tmp_path, monkeypatch, capsys):
    def run(runner, words, log):
        if words[1] == "training":
            return 1 if "one-1" in words else 0
        _, _, name, label, seed, results, *_ = words
        Record(experiment=name, variant=label, seed=int(seed), measures={"a": 1.0}).save(Path(results))
        return 0

    monkeypatch.setattr(Runner, "_wait", run)
    assert called(claim, "--seeds", "1", "2") == 1
    said = capsys.readouterr().err
    assert "FAILED: small one-1 (exit status 1): see" in said and "one-1.txt" in said
    recorded = sorted(path.stem for path in (tmp_path / "results" / "small").iterdir())
    assert recorded == ["one-2", "other-1", "other-2", "start-0"]


def test_ctrl_c_is_passed_on_once_and_nothing_else_starts(claim, tmp_path, monkeypatch):
    runner = Runner(runs=tmp_path / "runs", results=tmp_path / "results", num_at_once=1)
    program = "import sys, time; print('up', flush=True)\ntry: time.sleep(60)\nexcept KeyboardInterrupt: sys.exit(7)"
    log = tmp_path / "log.txt"
    codes = []
    waiting = threading.Thread(target=lambda: codes.append(runner._wait(["-c", program], log)))
    waiting.start()
    while not log.is_file() or "up" not in log.read_text():
        waiting.join(0.05)
    runner._interrupt()
    waiting.join(30)
    assert codes == [7], "it was interrupted, and could save"
    assert runner._wait(["-c", "print('more')"], log) == signal.SIGINT and "more" not in log.read_text()


def test_interrupting_says_what_was_kept(claim, called, monkeypatch, capsys):
    def interrupted(runner, words, log):
        raise KeyboardInterrupt

    monkeypatch.setattr(Runner, "_wait", interrupted)
    assert called(claim, "--seeds", "1") == 130
    assert "the same command resumes them" in capsys.readouterr().err


def test_a_wrong_name_is_reported_with_what_there_is(capsys):
    for words, problem in (
        (["vagan"], "Did you mean 'vagen'?"),
        (["vagen", "--variants", "grp"], "Did you mean 'grpo'?"),
        (["vagen", "--num-at-once", "0"], "--num-at-once must be at least 1"),
    ):
        assert main(["experiment", *words]) == 2
        assert problem in capsys.readouterr().err


def test_help_needs_no_torch():
    program = (
        "import sys\nfrom benchmarks.__main__ import main\n"
        "try: main(['experiment', '--help'])\nexcept SystemExit: pass\n"
        "assert 'transformers' not in sys.modules and 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


def test_a_variant_that_is_not_a_recipe_is_refused(claim):
    wrong = replace(claim, variants={**claim.variants, "other": Variant(command="no_recipe")})
    with pytest.raises(ConfigError, match="other of small is not a recipe: no_recipe"):
        wrong.words("other", 1)
