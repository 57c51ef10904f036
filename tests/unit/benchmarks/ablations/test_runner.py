"""Runs of an ablation: once each, from one start, and on from where they were stopped."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace

import pytest
import torch

from agents.hf.sampling_config import SamplingConfig
from benchmarks.__main__ import main
from benchmarks.ablations import command, papers, runner
from benchmarks.ablations.ablation import Ablation, Arm
from benchmarks.ablations.outcome import Outcome
from benchmarks.ablations.runner import Runner
from tests.unit.training.batches import NO_JUDGE, run_config
from tests.unit.training.reports import empty_reports
from training.algorithms.grpo import GRPO
from training.cold_start.cold_start_config import ColdStartConfig
from training.config.world_spec import WorldSpec
from training.stages.stages_config import Stage, StagesConfig
from vlm_envs.records.run_data import RunReader

LAKE = WorldSpec(env_id="VLM/FrozenLake-v0", kwargs={"prompt_format": "no_think", "max_turns": 2})


class InThisProcess:
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
def without_reports():
    """Has runs end in empty reports, and gives torch its threads back."""
    threads = torch.get_num_threads()
    with empty_reports():
        yield
    torch.set_num_threads(threads)


@pytest.fixture
def small(tiny_directory):
    """Returns an ablation of two arms from a start that is there, which take seconds."""
    run = run_config(
        worlds=(LAKE,),
        algorithm=GRPO(),
        num_iterations=1,
        sampling=SamplingConfig(max_new_tokens=4),
    )
    other = replace(run, algorithm=GRPO(scale="none"))
    return Ablation(
        name="small",
        title="Small",
        claim="One beats the other.",
        setting="Here.",
        method="one",
        arms=(
            Arm(name="one", title="one", stages=(Stage(name="rl", run=run),)),
            Arm(name="other", title="other", stages=(Stage(name="rl", run=other),)),
        ),
        start=str(tiny_directory),
        worlds=(LAKE,),
        sampling=run.sampling,
        judge=NO_JUDGE,
        num_test_levels=2,
    )


@pytest.fixture
def called(small, tmp_path, monkeypatch):
    """Calls the command with the small ablation alone, in this process."""
    monkeypatch.setattr(command, "spawned_pool", InThisProcess)
    monkeypatch.setattr(papers, "ABLATIONS", {"small": lambda: small})
    places = {name: str(tmp_path / name) for name in ("runs", "results", "page")}
    words = [word for name, place in places.items() for word in (f"--{name}", place)]
    return lambda *more: main(["ablations", *words, *more])


@pytest.mark.soak
def test_every_arm_is_run_once_a_seed_from_one_start_and_not_again(called, small, tmp_path, monkeypatch, capsys):
    assert called("--seeds", "1") == 0
    results = tmp_path / "results"
    names = ["small-one-1.json", "small-other-1.json", "small-start-0.json"]
    assert sorted(path.name for path in results.iterdir()) == names
    one, other, start = (Outcome.load(results / name) for name in names)
    assert [len(each.levels) for each in (one, other, start)] == [2, 2, 2]
    assert one.num_episodes == 4 and start.num_episodes == 0 and one.made_by["commit"] and one.measures["num_turns"]
    runs = tmp_path / "runs" / "small"
    begun = [RunReader(runs / f"{name}-1" / "1-rl").config["model"] for name in ("one", "other")]
    assert begun == [small.start] * 2
    assert "1 of 3 seeds" in (tmp_path / "page").read_text()
    assert "small-one-1" in capsys.readouterr().err
    monkeypatch.setattr(runner, "train_stages", lambda *_, **__: pytest.fail("it is there"))
    assert called("--seeds", "1") == 0


@pytest.mark.soak
def test_a_start_is_made_once_and_arms_go_on_from_it(small, tmp_path, monkeypatch):
    (stage,) = small.arms[0].stages
    cold_start = ColdStartConfig(num_steps=2, num_first_turn_steps=1, batch_size=2)
    imitate = Stage(name="imitate", run=replace(stage.run, num_iterations=0, cold_start=cold_start))
    of_stages = replace(small, start=StagesConfig(name="start", stages=(imitate,)))
    made = Runner(ablation=of_stages, runs=tmp_path / "runs", results=tmp_path / "results")
    assert not made.is_prepared
    made.prepare()
    assert made.is_prepared and "test levels solved" in made.prepare(), "it is there"
    weights = tmp_path / "runs" / "small" / "start" / "1-imitate" / "latest" / "model"
    assert (weights / "config.json").is_file()
    placed = of_stages.arm("one").placed(weights, tmp_path / "runs" / "small", seed=1)
    assert placed.resolved()[0].model == str(weights)


@pytest.mark.soak
def test_a_run_that_is_killed_goes_on(small, tmp_path, monkeypatch):
    made = Runner(ablation=small, runs=tmp_path / "runs", results=tmp_path / "results")

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Runner, "_tested", killed)
        with pytest.raises(KeyboardInterrupt):
            made.run("one", 1)
    assert not made.is_done("one", 1)
    trained = tmp_path / "runs" / "small" / "one-1" / "1-rl" / "metrics.jsonl"
    before = trained.read_bytes()
    assert "test levels solved" in made.run("one", 1)
    assert trained.read_bytes() == before, "what was trained is not trained again"


def test_a_quick_call_leaves_results_that_count_alone(called, tmp_path, monkeypatch):
    monkeypatch.setattr(Runner, "prepare", lambda made: (made.results.mkdir(parents=True), "start")[1])
    monkeypatch.setattr(Runner, "run", lambda made, name, seed: f"{name}-{seed} in {made.results}")
    assert called("--quick") == 0
    assert not (tmp_path / "results").exists() and not (tmp_path / "page").exists()
    assert "mean nothing" in (tmp_path / "runs" / "quick" / "results.md").read_text()


@pytest.mark.parametrize("name", papers.ABLATIONS)
def test_a_quick_ablation_is_cut_in_every_stage(name):
    quick = papers.ABLATIONS[name]().quick()
    runs = [run for arm in quick.arms for run in arm.runs]
    assert {run.num_iterations for run in runs} == {2} and quick.num_test_levels == 4
    pools = [spec.pool for run in runs for spec in run.worlds if spec.pool is not None]
    assert all(pool.attempts == 0 and pool.draw == 6 for pool in pools)


def test_a_wrong_name_is_told_with_what_there_is(capsys):
    assert main(["ablations", "--only", "vagan"]) == 2
    assert "Did you mean 'vagen'?" in capsys.readouterr().err
    assert main(["ablations", "--num-at-once", "0"]) == 2
