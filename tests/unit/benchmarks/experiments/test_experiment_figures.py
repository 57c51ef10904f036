"""Learning curves of runs and stages, and figures of experiments."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from benchmarks.__main__ import main
from benchmarks.experiments.figures import draw_experiment, draw_run
from benchmarks.experiments.measuring import MAX_POINTS, learning_curves, measured
from benchmarks.experiments.records import Evaluation, load_records
from benchmarks.experiments.shipped_experiments import find_experiments
from tests.unit.benchmarks.experiments.made_records import lake, record
from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import MissingRunDataError

CHECKOUT = Path(__file__).parents[4]
KEPT = CHECKOUT / "docs" / "experiments"
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


def learned(num: int, **more: Any) -> list[dict[str, Any]]:
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
    return put(tmp_path / "lake", config, [*imitated(5), *learned(20)], *evaluations)


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
    mix = learned(4, **of_worlds)
    put(home / "4-rl", {**start, "num_iterations": 4, "command": "rl"}, mix, evaluation("before", 0, 9))
    return home


def measured_curves(run: Path, variant: str = "lake_tiny", seed: int = 0):
    (curves,) = find_experiments("curves")
    return measured(curves, variant, seed, run)


def test_a_plain_run_has_its_cold_start_and_its_iterations(plain):
    found = measured_curves(plain, "frozenlake_tiny", 3)
    imitation, rl = found.spans
    assert (found.variant, found.seed, found.made_by, found.worlds) == ("frozenlake_tiny", 3, MADE_BY, [])
    assert (imitation.kind, imitation.num_iterations, imitation.evaluations) == ("imitation", 5, [])
    assert imitation.points[1] == {"iteration": 1.0, "loss": 0.5}
    assert (rl.stage, rl.kind, rl.num_iterations) == ("lake", "rl", 20)
    assert rl.points[10] == {"iteration": 10.0, "success": 0.5, "return": 20.0}, "and nothing that is not drawn"
    kept = [(each.label, each.iteration, each.split, each.num_successes, each.num_episodes) for each in rl.evaluations]
    assert kept == [("before", 0, "test", 10, 40), ("iteration 10", 10, "val", 25, 40), ("after", 10, "test", 30, 40)]


def test_a_run_of_stages_has_a_span_for_each_that_has_begun(staged):
    found = measured_curves(staged, "ivgr_tiny")
    clips, start, sft, rl = found.spans
    assert found.made_by["command"] == "rl"
    assert (clips.stage, clips.kind, clips.note) == ("1-clips", "curation", "kept 30 of 64 questions")
    assert (start.kind, start.num_iterations) == ("imitation", 8)
    assert [each.iteration for each in start.evaluations] == [8, 8], "they were made after the imitation"
    assert (sft.stage, sft.kind, sft.num_iterations) == ("3-sft", "sft", 250)
    assert len(sft.points) <= MAX_POINTS and sft.points[0]["loss"] == pytest.approx(1 - 1 / 300, abs=1e-4)
    assert sft.points[-1]["eval_loss"] == 0.25
    assert rl.points[0] == {"iteration": 0.0, "success": 0.0, "return": 0.0, f"success/{LAKE}": 0.5}
    assert rl.evaluations == [
        Evaluation(iteration=0, label="before", world=LAKE, split="test", num_successes=9, num_episodes=40, reward=1.5)
    ]


def test_curves_are_written_and_read_back(staged, tmp_path):
    found = measured_curves(staged, "ivgr_tiny")
    found.save(tmp_path)
    assert load_records(tmp_path, "curves") == [found]


@pytest.mark.soak
def test_a_stage_has_a_column_of_its_own(plain, staged, tmp_path):
    widths = {}
    for run in (plain, staged):
        draw_run(measured_curves(run), tmp_path / f"{run.name}.png")
        with Image.open(tmp_path / f"{run.name}.png") as image:
            pixels, widths[run.name] = np.asarray(image.convert("RGB")), image.width
        assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 50, "it is not blank"
    assert widths["staged"] - widths["lake"] == pytest.approx(3.8 * 110, abs=2), "three columns beside two"


@pytest.mark.soak
@pytest.mark.parametrize(("name", "place"), [("curves", "curves"), ("results", "results.png")])
def test_figures_of_the_pages_are_of_the_records_in_the_repository(name, place, tmp_path, capsys):
    made = tmp_path / place
    assert main(["experiment", name, "--figure", str(made), "--results", str(KEPT)]) == 0
    for line in capsys.readouterr().out.split():
        kept = CHECKOUT / "docs" / "images" / Path(line).relative_to(tmp_path)
        with Image.open(line) as image, Image.open(kept) as drawn:
            assert image.size == drawn.size
    assert "docs/images" not in str(made) and len([*tmp_path.rglob("*.png")]) == (6 if name == "curves" else 1)


def test_what_cannot_be_drawn_is_refused(staged, tmp_path, capsys):
    put(tmp_path / "new", {"worlds": [], "num_iterations": 5, "seed": 0}, [])
    (tmp_path / "unbegun").mkdir()
    (tmp_path / "unbegun" / "stages.json").write_text((staged / "stages.json").read_text())
    for name in ("unbegun", "new"):
        with pytest.raises(ConfigError, match="has learned nothing yet"):
            learning_curves(tmp_path / name)
    with pytest.raises(MissingRunDataError):
        learning_curves(tmp_path / "none")
    for words, problem in (
        (["curves", "--figure", str(tmp_path), "--results", str(tmp_path / "none")], "There are no such records"),
        (["curves", "--figure", str(tmp_path / "a.png")], "each variant has its own"),
        (["results", "--figure", str(tmp_path)], "is a folder. Name a file in it"),
        (["results", "--figure", str(tmp_path / "none" / "a.png")], "does not exist"),
        (["results", "--figure", str(tmp_path / "a.txt")], "must end in one of .png"),
        (["vagen", "--figure", str(tmp_path / "a.png")], "records no learning curves"),
    ):
        results = [] if "--results" in words else ["--results", str(KEPT)]
        assert main(["experiment", *words, *results]) == 2, problem
        assert problem in capsys.readouterr().err


def test_a_figure_has_a_line_for_what_was_measured(tmp_path, monkeypatch):
    drawn = {}
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: drawn.update(figure=figure))
    points = [{"iteration": 0.0, "success": 0.5, "tool_used": 0.25}, {"iteration": 1.0, "success": 0.5, "thought": 1.0}]
    world = replace(lake([0.0] * 40, [1.0] * 40), expert=[0.5] * 40)
    (results,) = find_experiments("results")
    draw_experiment(results, [record(world, points=points)], tmp_path / "results.png")
    lines_of = {line.get_label(): [*line.get_ydata()] for line in drawn["figure"].axes[0].get_lines()}
    assert lines_of["tool used"] == [0.25] and lines_of["thoughts of what is seen right"] == [1.0]
    assert lines_of["expert it imitated"] == [0.5, 0.5] and lines_of["lazy rival"] == [0.0, 0.0]
    assert "observations right" not in lines_of


def test_variants_have_a_panel_each(tmp_path):
    points = [{"iteration": float(i), "success": 0.5, "observation": 0.9, "prediction": 0.8} for i in range(3)]
    records = [record(lake([0.0], [1.0]), points=points, variant=str(i // 2), seed=i % 2) for i in range(7)]
    (results,) = find_experiments("results")
    draw_experiment(results, records, tmp_path / "all.png")
    assert (tmp_path / "all.png").stat().st_size > 5000
