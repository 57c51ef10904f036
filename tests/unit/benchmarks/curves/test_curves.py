"""A run, or a run of stages, is condensed into a small file with its course and counts, and drawn stage by stage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from benchmarks.__main__ import main
from benchmarks.curves.condense import MAX_POINTS, condensed
from benchmarks.curves.curve import Evaluation, RunCurve
from benchmarks.curves.draw import draw
from vlm_envs.errors import ConfigError

MADE_BY = {"command": "python -m training lake", "commit": "abc", "versions": {"torch": "2"}}
LAKE = "VLM/FrozenLake-v0"


def put(directory: Path, config: dict[str, Any], metrics: list[dict[str, Any]], *evaluations: dict[str, Any]) -> Path:
    directory.mkdir(parents=True)
    (directory / "config.json").write_text(json.dumps(config))
    for name, lines in (("metrics", metrics), ("evaluations", evaluations)):
        (directory / f"{name}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    return directory


def evaluation(label: str, iteration: int, num_successes: int, split: str = "test", **more: Any) -> dict[str, Any]:
    rate = {"num_episodes": 40, "num_successes": num_successes, "success": num_successes / 40}
    return {"label": label, "iteration": iteration, "world": LAKE, "split": split, "reward": 1.5, **rate, **more}


def learnt(num: int, **more: Any) -> list[dict[str, Any]]:
    return [
        {
            "iteration": each,
            "phase": "rl",
            "success": each / num,
            "reward": 0.0,
            "return": 2.0 * each,
            "kl": 0.1,
            **more,
        }
        for each in range(num)
    ]


def imitated(num: int) -> list[dict[str, Any]]:
    return [{"iteration": each, "phase": "cold_start", "loss": 1.0 / (1 + each)} for each in range(num)]


@pytest.fixture
def plain(tmp_path):
    evaluations = [evaluation("before", 0, 10), evaluation("iteration 10", 10, 25, "val")]
    evaluations += [evaluation("after", 20, 30, policy_iteration=10)]
    config = {"worlds": [], "num_iterations": 20, "seed": 3, **MADE_BY}
    return put(tmp_path / "lake", config, [*imitated(5), *learnt(20)], *evaluations)


@pytest.fixture
def staged(tmp_path):
    home = tmp_path / "staged"
    names = ["clips", "start", "sft", "rl", "later"]
    home.mkdir()
    stages = {"name": "staged", "stages": [{"name": name} for name in names], "finished": names[:3]}
    (home / "stages.json").write_text(json.dumps(stages))
    put(home / "1-clips", {"curation": {}, "yield": {"num_kept": 30, "num_samples": 64}}, [])
    start = {"worlds": [], "num_iterations": 0, "seed": 1, **MADE_BY}
    put(home / "2-start", start, imitated(8), evaluation("before", 0, 4), evaluation("after", 0, 4))
    steps = [{"iteration": each, "loss": 1.0 - each / 300, "phase": "sft"} for each in range(250)]
    steps[-1]["eval_loss"] = 0.25
    put(home / "3-sft", {"data": [], "seed": 1, **MADE_BY, "command": "sft"}, steps)
    of_worlds = {f"success/{LAKE}": 0.5, "success/other": None}
    mix = learnt(4, **of_worlds)
    put(home / "4-rl", {**start, "num_iterations": 4, "command": "rl"}, mix, evaluation("before", 0, 9))
    return home


def test_a_plain_run_has_its_cold_start_and_its_iterations(plain):
    curve = condensed(plain)
    imitation, rl = curve.spans
    assert (curve.name, curve.seed, curve.made_by) == ("lake", 3, MADE_BY)
    assert (imitation.kind, imitation.num_iterations, imitation.evaluations) == ("imitation", 5, [])
    assert imitation.points[1] == {"iteration": 1.0, "loss": 0.5}
    assert (rl.stage, rl.kind, rl.num_iterations) == ("lake", "rl", 20)
    assert rl.points[10] == {"iteration": 10.0, "success": 0.5, "return": 20.0}, "and nothing that is not drawn"
    kept = [(each.label, each.iteration, each.split, each.num_successes, each.num_episodes) for each in rl.evaluations]
    assert kept == [("before", 0, "test", 10, 40), ("iteration 10", 10, "val", 25, 40), ("after", 10, "test", 30, 40)]


def test_a_run_of_stages_has_a_span_for_each_that_has_begun(staged):
    curve = condensed(staged, "ivgr")
    clips, start, sft, rl = curve.spans
    assert curve.name == "ivgr" and curve.made_by["command"] == "rl"
    assert (clips.stage, clips.kind, clips.note) == ("1-clips", "curation", "kept 30 of 64 questions")
    assert (start.kind, start.num_iterations) == ("imitation", 8)
    assert [each.iteration for each in start.evaluations] == [8, 8], "they were made behind the imitation"
    assert (sft.stage, sft.kind, sft.num_iterations) == ("3-sft", "sft", 250)
    assert len(sft.points) <= MAX_POINTS and sft.points[0]["loss"] == pytest.approx(1 - 1 / 300, abs=1e-4)
    assert sft.points[-1]["eval_loss"] == 0.25
    assert rl.points[0] == {"iteration": 0.0, "success": 0.0, "return": 0.0, f"success/{LAKE}": 0.5}
    assert rl.evaluations == [
        Evaluation(iteration=0, label="before", world=LAKE, split="test", num_successes=9, num_episodes=40, reward=1.5)
    ]


def test_a_curve_is_written_down_and_read_back(staged, tmp_path):
    curve = condensed(staged)
    curve.save(tmp_path / "curves" / "a.json")
    assert RunCurve.load(tmp_path / "curves" / "a.json") == curve
    (tmp_path / "b.json").write_text('{"name": "b", "spans": [{"iteration": 1}]}')
    with pytest.raises(ConfigError, match=r"b\.json is no curve of a run .*curves --add runs/NAME"):
        RunCurve.load(tmp_path / "b.json")


@pytest.mark.soak
def test_a_stage_has_a_column_of_its_own(plain, staged, tmp_path):
    widths = {}
    for run in (plain, staged):
        draw(condensed(run), tmp_path / f"{run.name}.png")
        with Image.open(tmp_path / f"{run.name}.png") as picture:
            pixels, widths[run.name] = np.asarray(picture.convert("RGB")), picture.width
        assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 50, "it is not blank"
    assert widths["staged"] - widths["lake"] == pytest.approx(3.8 * 110, abs=2), "three columns beside two"


@pytest.mark.soak
def test_the_command_adds_runs_and_draws_all_anew(plain, staged, tmp_path, capsys):
    places = ["--curves", str(tmp_path / "curves"), "--pictures", str(tmp_path / "pictures")]
    assert main(["curves", "--add", str(plain), str(staged), *places]) == 0
    assert "staged.png: 1-clips, 2-start, 3-sft, 4-rl" in capsys.readouterr().out
    assert main(["curves", "--add", str(plain), "--name", "other", *places]) == 0
    assert sorted(each.name for each in (tmp_path / "curves").iterdir()) == ["lake.json", "other.json", "staged.json"]
    for each in (tmp_path / "pictures").iterdir():
        each.unlink()
    assert main(["curves", *places]) == 0
    assert sorted(each.stem for each in (tmp_path / "pictures").iterdir()) == ["lake", "other", "staged"]


def test_what_cannot_be_drawn_is_refused(plain, staged, tmp_path, capsys):
    places = ["--curves", str(tmp_path / "curves"), "--pictures", str(tmp_path / "pictures")]
    put(tmp_path / "new", {"worlds": [], "num_iterations": 5, "seed": 0}, [])
    (tmp_path / "unbegun").mkdir()
    (tmp_path / "unbegun" / "stages.json").write_text((staged / "stages.json").read_text())
    for words, told in (
        ([], "There are no curves in"),
        (["--add", str(tmp_path / "unbegun")], "has learnt nothing yet"),
        (["--add", str(tmp_path / "none")], "Expected a run directory"),
        (["--add", str(tmp_path / "new")], "has learnt nothing yet"),
        (["--add", str(plain), str(plain)], "Two of these runs are called 'lake'"),
        (["--add", str(plain), str(plain), "--name", "a"], "--name a is of one run, and 2 are added"),
        (["--add", str(plain), "--name", "../a"], "--name must be of letters"),
    ):
        assert main(["curves", *words, *places]) == 2, told
        assert told in capsys.readouterr().err
    assert not (tmp_path / "curves").exists()
