"""A run of stages: what each starts from and is held to; one that is killed in any of them comes to the same."""

from __future__ import annotations

import copy
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from agents.hf.hf_agent import load_checkpoint
from agents.hf.model_families import vision_parts
from agents.hf.sampling_config import SamplingConfig
from tests.soak.test_killed_runs import KILLED_AT
from tests.unit.slow import quick
from tests.unit.training.batches import run_config
from tests.unit.training.reports import empty_reports
from tests.unit.training.test_run import differing
from training.__main__ import main
from training.checkpoints.checkpoint_state import load_checkpoint_state
from training.config.run_config import RunConfig
from training.config.update_config import MemoryConfig, PPOConfig
from training.loop.trainer import Trainer
from training.recipes.shipped import STAGED_RECIPES
from training.run import train
from training.sft.sft_config import SFTConfig
from training.sft.sft_loop import FineTuning, fine_tune
from training.stages.stages_config import STAGE_BEFORE, Stage, StagesConfig, saved_stages
from training.stages.stages_loop import train_stages
from training.update.learner import Learner
from vlm_envs.cli.commands import main as vlm_envs_main
from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import RunExistsError
from vlm_envs.records.report_page import evaluation_rows
from vlm_envs.records.run_data import STAGES, RunReader

CHECKOUT = Path(__file__).parents[4]
FOLDERS = ("1-sft", "2-explore", "3-accuracy")
OF_ONE_ITERATION = [word for name in ("explore", "accuracy") for word in (f"--stages.{name}.num-iterations", "1")]


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    lines = []
    for number in range(8):
        Image.new("RGB", (40, 40), (30 * number, 90, 200)).save(folder / f"{number}.png")
        said = ("Up", "Down", "Left", "Right")[number % 4]
        turns = [{"role": "user", "content": "<image>Where to?"}, {"role": "assistant", "content": said}]
        lines.append(json.dumps({"messages": turns, "images": [f"{number}.png"]}) + "\n")
    (folder / "rows.jsonl").write_text("".join(lines))
    return folder / "rows.jsonl"


def reinforced(**changes) -> RunConfig:
    """Returns two iterations whose learning rate is large enough to see what was held to what."""
    fields = {
        "model": STAGE_BEFORE,
        "num_iterations": 2,
        "ppo": PPOConfig(num_minibatches=1, warmup_iterations=0, learning_rate=1e-2, kl_coef=0.1),
        "num_eval_episodes": 2,
        "checkpoint_every": 1,
        "num_threads": 1,
    }
    return run_config(**fields | changes)


def staged(model, data, output, **changes) -> StagesConfig:
    """Returns a fine-tuning, and two reinforcement learnings of other temperature, penalty and reference."""
    tuned = SFTConfig(
        model=str(model), data=(str(data),), num_steps=4, batch_size=2, learning_rate=1e-2, eval_share=0.25,
        checkpoint_every=2, num_threads=1,
    )  # fmt: skip
    accuracy = reinforced(
        sampling=SamplingConfig(max_new_tokens=8, temperature=0.8),
        ppo=PPOConfig(num_minibatches=1, warmup_iterations=0, learning_rate=5e-3, kl_coef=0.05),
    )
    stages = (
        Stage(name="sft", run=tuned),
        Stage(name="explore", run=reinforced()),
        Stage(name="accuracy", run=accuracy, reference="kept"),
    )
    return StagesConfig(**{"name": "staged", "output": str(output), "stages": stages} | changes)


@pytest.fixture(scope="module")
def recipe(tiny_directory, data, tmp_path_factory) -> str:
    """A file whose recipe is `staged`, as a user would write one."""
    path = tmp_path_factory.mktemp("recipe") / "three_stages.py"
    path.write_text(
        "from tests.unit.training.stages.test_stages_loop import staged\n"
        "from training.stages.stages_config import StagesConfig\n\n\n"
        "def three_stages() -> StagesConfig:\n"
        '    """Three stages of a few seconds."""\n'
        f"    return staged({str(tiny_directory)!r}, {str(data)!r}, 'runs')\n"
    )
    return str(path)


def weights(run: Path):
    return load_file(run / "latest" / "model" / "model.safetensors")


def lines_of(run: Path) -> list[dict[str, object]]:
    seconds = ("_s", "per_s")
    return [{k: v for k, v in line.items() if not k.endswith(seconds)} for line in RunReader(run).metrics()]


@pytest.fixture(scope="module")
def straight(tiny_directory, data, tmp_path_factory) -> Path:
    """The directory of an undisturbed run, made once."""
    before = torch.get_num_threads()
    with empty_reports():
        directory = train_stages(staged(tiny_directory, data, tmp_path_factory.mktemp("straight")))
    torch.set_num_threads(before)
    return directory


@pytest.mark.soak
def test_stages_are_the_runs_that_one_would_start_one_after_the_other(straight, tiny_directory, data, tmp_path):
    sft, explore, accuracy = staged(tiny_directory, data, tmp_path).stages
    one = fine_tune(replace(sft.run, output=str(tmp_path), name="one"))
    two = train(replace(explore.run, model=str(one / "latest" / "model"), output=str(tmp_path), name="two"))
    held_to = str(one / "latest" / "model")
    three = train(
        replace(
            accuracy.run, model=str(two / "latest" / "model"), reference=held_to, output=str(tmp_path), name="three"
        )
    )
    for folder, alone in zip(FOLDERS, (one, two, three), strict=True):
        assert differing(weights(straight / folder), weights(alone)) == []
        assert lines_of(straight / folder) == lines_of(alone)
    assert [line["label"] for line in RunReader(straight / FOLDERS[2]).evaluations()] == ["before", "after"]
    assert saved_stages(straight)[1] == ["sft", "explore", "accuracy"]


@pytest.mark.soak
def test_a_reference_is_kept_or_what_the_stage_starts_from(straight, tiny_directory, data, tmp_path):
    kept = [json.loads((straight / each / "latest" / "reference.json").read_text())["path"] for each in FOLDERS[1:]]
    assert kept == [str((straight / "1-sft" / "latest" / "model").resolve())] * 2
    first = next(line["kl"] for line in lines_of(straight / FOLDERS[2]) if "kl" in line)
    config = staged(tiny_directory, data, tmp_path)
    reset = replace(config, stages=(*config.stages[:2], replace(config.stages[2], reference="reset")))
    directory = train_stages(reset)
    other = next(line["kl"] for line in lines_of(directory / FOLDERS[2]) if "kl" in line)
    assert abs(other) < 1e-6 < abs(first), "before its first step a stage is where it starts, and away from what was"
    here = json.loads((directory / FOLDERS[2] / "latest" / "reference.json").read_text())["path"]
    assert here == str((directory / "2-explore" / "latest" / "model").resolve())


NO_REPORTS = """
from training import run
from training.sft import sft_loop
run.build_report = sft_loop.build_report = lambda directory: directory / "report.html"
"""
MOMENTS = {
    "training.update.supervised_steps:SupervisedLearner.step:4": ("1-sft", 2),
    "training.update.learner:Learner.update:2": ("2-explore", 1),
    "training.stages.stages_config:replace_file:2": ("2-explore", 2),
    "training.update.learner:Learner.update:2 ": ("3-accuracy", 1),
}
"""When it is killed: in a step behind a checkpoint, in an update, when a stage is done and nobody knows, in an update.

With the stage that it is in, and the iterations of its checkpoint. Each process goes on from the one before.
"""


@pytest.mark.soak
def test_a_run_that_is_killed_in_each_stage_comes_to_the_same(straight, recipe, tmp_path):
    words = ["--recipe", recipe, "--output", str(tmp_path), "--name", "staged"]
    for number, (call, (folder, num_done)) in enumerate(MOMENTS.items()):
        child = subprocess.run(
            [sys.executable, "-c", NO_REPORTS + KILLED_AT, call.strip(), *words, *(["--resume"] if number else [])],
            cwd=CHECKOUT, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert child.returncode == -signal.SIGKILL, child.stderr
        assert load_checkpoint_state(tmp_path / "staged" / folder / "latest")["iteration"] == num_done, call
    assert main([*words, "--resume"]) == 0
    for folder in FOLDERS:
        states = [load_checkpoint_state(run / folder / "latest") for run in (straight, tmp_path / "staged")]
        places = [each.pop("reference") for each in states]
        assert (places[0] or {}).get("sha256") == (places[1] or {}).get("sha256")
        assert differing(*states) == [], folder
        assert differing(weights(straight / folder), weights(tmp_path / "staged" / folder)) == []
        assert lines_of(straight / folder) == lines_of(tmp_path / "staged" / folder)


def test_a_frozen_tower_is_the_references_own_too(tiny, tiny_directory):
    policy, _ = tiny
    other, _ = load_checkpoint(tiny_directory)
    held = PPOConfig(num_minibatches=1, kl_coef=0.1)
    config = run_config(reference="other", ppo=held, memory=MemoryConfig(freeze_vision_tower=True))
    Learner(copy.deepcopy(policy), [], config, reference=copy.deepcopy(other))
    with torch.no_grad():
        next(iter(vision_parts(other)[0].parameters())).add_(1.0)
    with pytest.raises(ConfigError, match=r"differs from the policy's, but with --memory.freeze-vision-tower"):
        Learner(copy.deepcopy(policy), [], config, reference=other)


@pytest.mark.soak
def test_mags_in_two_stages_runs(tiny_directory, tmp_path, capsys):
    name = "mags_tiny"
    settings = {
        "num-iterations": "1", "num-groups": "2", "group-size": "2", "num-eval-episodes": "2", "num-threads": "1",
        "sampling.max-new-tokens": "8", "ppo.num-minibatches": "1",
    }  # fmt: skip
    stages = STAGED_RECIPES[name]().stages
    words = [word for stage in stages for key, value in settings.items() for word in (f"{stage.option}.{key}", value)]
    assert main([name, "--output", str(tmp_path), "--model", str(tiny_directory), *words]) == 0
    assert [path.name for path in sorted(tmp_path.glob("*/*-*"))] == ["1-imitation", "2-precision", "3-recall"]
    first, second = (RunReader(tmp_path / name / each).config for each in ("2-precision", "3-recall"))
    assert [each["judge"]["episode_reward"] for each in (first, second)] == ["mags_stage_1", "mags_stage_2"]
    assert second["model"] == str(tmp_path / name / "2-precision" / "latest" / "model")
    assert main([name, "--output", str(tmp_path), "--model", str(tiny_directory), "--resume"]) == 0
    assert "Stage" not in capsys.readouterr().out.split("Report:")[-2]


def test_ctrl_c_ends_the_run_and_not_only_the_stage(tiny_directory, data, tmp_path, monkeypatch):
    config = staged(tiny_directory, data, tmp_path)
    update = Learner.update

    def interrupted(self, *args, iteration, **kwargs):
        os.kill(os.getpid(), signal.SIGINT)
        return update(self, *args, iteration=iteration, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(Learner, "update", interrupted)
        with pytest.raises(KeyboardInterrupt, match=r"Interrupted in stage 'explore'; saved. Resume with --resume"):
            train_stages(config)
    assert saved_stages(config.directory)[1] == ["sft"]
    assert not (config.directory / FOLDERS[2]).exists()


@pytest.mark.soak
def test_what_has_begun_stays_as_it_is(straight):
    config = saved_stages(straight)[0]

    def with_run(number, **changes):
        stages = list(config.stages)
        stages[number] = replace(stages[number], run=replace(stages[number].run, **changes))
        return replace(config, stages=tuple(stages))

    with pytest.raises(RunExistsError, match="adding --resume"):
        train_stages(config)
    with pytest.raises(ConfigError, match=r"Stage 'explore'.*started with another configuration:\n.*--group-size"):
        train_stages(with_run(1, group_size=4), resume=True)
    with pytest.raises(ConfigError, match=r"Stage 'sft'.*:\n.*learning-rate: the run has 0.01, requested is 0.02"):
        train_stages(with_run(0, learning_rate=0.02), resume=True)
    with pytest.raises(ConfigError, match="Stage 'explore': it is finished, and 3-accuracy has started from its model"):
        train_stages(with_run(1, num_iterations=3), resume=True)
    with pytest.raises(ConfigError, match=r"Stage 'accuracy': --num-iterations 1: the run has already done 2"):
        train_stages(with_run(2, num_iterations=1), resume=True)
    with pytest.raises(ConfigError, match=r"Stage 'accuracy'.*:\n.*--reference"):
        stages = (*config.stages[:2], replace(config.stages[2], reference="reset"))
        train_stages(replace(config, stages=stages), resume=True)
    with pytest.raises(
        ConfigError, match=r"has started the stages 1-sft, 2-explore, 3-accuracy, but the requested ones are 1-sft"
    ):
        train_stages(replace(config, stages=config.stages[:1]), resume=True)
    with pytest.raises(ConfigError, match=r"starts from .*, not from elsewhere"):
        train_stages(replace(config, model="elsewhere"), resume=True)


@pytest.mark.soak
def test_the_last_stage_may_change_until_it_begins_and_be_longer_when_it_is_done(recipe, tmp_path, capsys, monkeypatch):
    words = ["--recipe", recipe, "--output", str(tmp_path), "--name", "staged", "--stages.explore.num-iterations", "1"]

    def stopped(run, *, resume, processes):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("training.stages.stages_loop.trained", stopped)
        assert main(words) == 130
    assert saved_stages(tmp_path / "staged")[1] == ["sft"]
    changed = ["--stages.accuracy.num-iterations", "1", "--stages.accuracy.ppo.kl-coef", "0.2"]
    assert main([*words, "--resume", *changed]) == 0
    done = RunReader(tmp_path / "staged" / FOLDERS[2])
    assert done.config["ppo"]["kl_coef"] == 0.2 and len(done.metrics()) == 1
    assert "Stage 1 of 3" not in capsys.readouterr().out.partition("Interrupted")[2]
    assert main([*words, "--resume", "--stages.accuracy.num-iterations", "2"]) == 0
    shown = capsys.readouterr().out
    assert "Stage 3 of 3: accuracy" in shown and "Stage 2 of 3" not in shown
    assert len(done.metrics()) == 2
    assert main([*words, "--resume"]) == 0
    shown = capsys.readouterr().out
    assert "Stage 3 of 3" not in shown, "all are finished, and the second resumption need not name the length again"
    table = [line.split()[:2] for line in shown.splitlines() if line.startswith(FOLDERS)]
    assert table == [[folder, label] for folder in FOLDERS for label in ("before", "after")]


@pytest.mark.soak
@pytest.mark.report
def test_one_report_shows_all_stages_on_one_axis(straight, tmp_path, capsys):
    run = tmp_path / "staged"
    shutil.copytree(straight, run)
    record = json.loads((run / STAGES).read_text())
    record["stages"].append({"name": "later"})
    (run / STAGES).write_text(json.dumps(record))
    assert vlm_envs_main(["report", str(run)]) == 0
    assert capsys.readouterr().out.strip() == str(run / "report.html")
    page = (run / "report.html").read_text()
    assert "<h1>staged</h1>" in page
    assert "<td>1-sft</td><td>4</td><td>0 to 4</td>" in page
    assert "<td>2-explore</td><td>2</td><td>4 to 6</td>" in page and "4-later (not begun)" in page
    assert page.count("<svg") > 5 and (run / "curves.png").stat().st_size > 10_000
    rows = evaluation_rows(run, FOLDERS)
    assert [(row["stage"], row["evaluation"]) for row in rows] == [
        (folder, label) for folder in FOLDERS for label in ("before", "after")
    ]
    assert rows[0]["loss"] and rows[2]["solved"].endswith("%")


def interrupted_at_the_end_of(monkeypatch, number: int) -> None:
    """Has Ctrl-C come in the last evaluation of a stage: what is held out in a fine-tuning, else the test levels."""

    def interrupt(tuning, *given):
        if tuning.num_done + 1 == tuning.learner.steps.num_steps:
            os.kill(os.getpid(), signal.SIGINT)
        return eval_loss(tuning, *given)

    def interrupt_after(trainer, label, *given, **named):
        if label == "after" and trainer.directory.name == FOLDERS[number]:
            os.kill(os.getpid(), signal.SIGINT)
        return evaluate(trainer, label, *given, **named)

    eval_loss, evaluate = FineTuning._eval_loss, Trainer._evaluate
    if number == 0:
        monkeypatch.setattr(FineTuning, "_eval_loss", interrupt)
    else:
        monkeypatch.setattr(Trainer, "_evaluate", interrupt_after)


@pytest.mark.soak
@pytest.mark.parametrize("number", quick([0, 1], 0))
def test_ctrl_c_in_the_last_evaluation_of_a_stage_begins_no_other(number, recipe, tmp_path, capsys, monkeypatch):
    words = ["--recipe", recipe, "--output", str(tmp_path), "--name", "staged", *OF_ONE_ITERATION]
    name = FOLDERS[number].partition("-")[2]
    with monkeypatch.context() as patched, empty_reports():
        interrupted_at_the_end_of(patched, number)
        assert main(words) == 130
    told = f"`python -m training --recipe {recipe} --output {tmp_path} --resume`"
    said = f"Interrupted at the end of stage {name!r}, which is finished. Resume with {told}."
    assert said in capsys.readouterr().err
    assert saved_stages(tmp_path / "staged")[1] == ["sft", "explore"][: number + 1]
    assert not (tmp_path / "staged" / FOLDERS[number + 1]).exists()
    if number == 1:
        evaluations = RunReader(tmp_path / "staged" / FOLDERS[1]).evaluations()
        assert [line["label"] for line in evaluations] == ["before", "after"], "it was played to its end"
        with empty_reports():
            assert main([*words, "--resume"]) == 0
        shown = capsys.readouterr().out
        assert "Stage 3 of 3" in shown and "Stage 2 of 3" not in shown


@pytest.mark.soak
def test_ctrl_c_in_the_last_evaluation_of_all_lets_the_run_end(recipe, tmp_path, capsys, monkeypatch):
    interrupted_at_the_end_of(monkeypatch, 2)
    with empty_reports():
        assert main(["--recipe", recipe, "--output", str(tmp_path), "--name", "staged", *OF_ONE_ITERATION]) == 0
    assert "Report: " in capsys.readouterr().out
    assert saved_stages(tmp_path / "staged")[1] == ["sft", "explore", "accuracy"]
