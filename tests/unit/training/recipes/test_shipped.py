"""The cold starts that recipes start from are what `python -m training cold_start` makes of them."""

import json
import shlex
from pathlib import Path

import pytest

from agents.hf.checkpoint import PROVENANCE
from agents.hf.hf_agent import load_checkpoint
from training.__main__ import main
from training.cold_start.cold_start_options import cold_start_options
from training.recipes.listing import FACTS
from training.recipes.shipped import FIRST_STARTS, RECIPES, STAGED_PRESETS, STAGED_RECIPES

ROOT = Path(__file__).parents[4]
CHECKPOINTS = ROOT / "training" / "recipes" / "checkpoints"
SHIPPED = {name: ROOT / recipe().model for name, recipe in RECIPES.items() if name.endswith("_tiny") and recipe().model}
SHIPPED |= {name: CHECKPOINTS / name for name in FIRST_STARTS}


def test_these_recipes_ship_one():
    assert set(SHIPPED) == {
        "frozenlake_tiny",
        "sokoban_tiny",
        "judging_tiny",
        "svg_tiny",
        "navigation_tiny",
        "primitive_tiny",
        "zoomqa_tiny",
        "docqa_tiny",
        "videoqa_tiny",
        "mix_tiny",
        "mix_first_steps",
        "primitive_two_cubes",
    }
    assert {directory.name for directory in CHECKPOINTS.iterdir()} == {*SHIPPED}, "and there are no others"


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_cold_start_was_made_from_its_recipe(name):
    made_from = json.loads((SHIPPED[name] / PROVENANCE).read_text())
    recipe = json.loads(json.dumps((RECIPES | FIRST_STARTS)[name]().to_dict()))
    since = {"data": None, "start_from": None, "max_nonfinite_steps": 5, "checkpoint_every": 100}
    since |= {"num_copying_steps": 0, "residual_scale": 1.0, "tells_plan": False}
    since |= {"betas": [0.9, 0.95], "eps": 1e-8, "decay_exempt": []}
    first = made_from
    for world in (*recipe["worlds"], *first["worlds"]):
        world["kwargs"].pop("format_reward", None)  # no expert shows what is paid for
    while "started_from" in first and since | first["cold_start"] != recipe["cold_start"]:
        assert first["worlds"][0]["kwargs"] == recipe["worlds"][0]["kwargs"], "every stage was taught in the same world"
        first = first["started_from"]
    assert since | first["cold_start"] == recipe["cold_start"], "settings added since change nothing"
    of_worlds = {"name": None, "num_workers": None, "step_timeout_s": 60.0, "pool": None, "cold_start_pool": None}
    of_worlds |= {"cold_start_suboptimal_rate": None, "cold_start_weight": None}
    taught, played = ({w["env_id"]: of_worlds | w for w in each["worlds"]} for each in (first, recipe))
    assert {*taught} == {*played}
    changed = {env_id for env_id, world in played.items() if taught[env_id] != world}
    assert not changed, f"{name} starts from what was taught with other settings: python -m training cold_start {name}"
    if start := recipe["cold_start"]["start_from"]:
        assert json.loads((ROOT / start / PROVENANCE).read_text()) == first["started_from"]
    # A drawing is solved if it is exact, and rewarded for being alike
    least = {"svg_tiny": 0.01, "mix_tiny": 0.2, "primitive_two_cubes": 0.2}.get(name, 0.3)
    assert least < made_from["validation_success"] < 0.85, "good enough to learn from, with something left to learn"


def test_the_page_lists_every_start_with_its_steps_and_what_it_solves():
    page = (ROOT / "docs" / "research" / "tiny-recipes.md").read_text(encoding="utf-8")
    starts = sorted(CHECKPOINTS.iterdir())
    for start in starts:
        made_from = json.loads((start / PROVENANCE).read_text())
        (line,) = [line for line in page.splitlines() if line.startswith(f"| `{start.name}`") and " steps | " in line]
        _, _, steps, solved, _, _ = line.split("|")
        assert steps == f" {made_from['cold_start']['num_steps']:,} steps "
        assert solved.startswith(f" {made_from['validation_success']:.3f}")
    megabytes = sum(each.stat().st_size for start in starts for each in start.iterdir()) / 1e6
    assert f"Twelve of them take {megabytes:.0f} MB." in page and len(starts) == 12 and megabytes < 40


@pytest.mark.parametrize("name", SHIPPED)
def test_the_page_has_one_command_for_every_start(name, capsys):
    page = (ROOT / "docs" / "research" / "tiny-recipes.md").read_text(encoding="utf-8")
    (line,) = [line for line in page.splitlines() if line.startswith(f"| `{name}`") and " steps | " in line]
    command = line.split("|")[-2].strip()
    assert command == f"`python -m training cold_start {name}`"
    recipe, config = cold_start_options(shlex.split(command.strip("`"))[4:])
    assert (recipe.name, config.name, config.output, config.model) == (name, name, "runs", None)
    assert config.seed == json.loads((SHIPPED[name] / PROVENANCE).read_text())["seed"]
    assert capsys.readouterr() == ("", ""), "nothing of it is given up or changed"


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_cold_start_is_small_and_loads(name):
    assert sum(path.stat().st_size for path in SHIPPED[name].iterdir()) < 8_000_000
    model, encoder = load_checkpoint(SHIPPED[name])
    assert 500_000 < model.num_parameters() < 2_000_000
    assert len(encoder.tokenizer) == model.config.text_config.vocab_size


def test_all_that_ship_together_are_under_40_mb():
    files = [path for path in CHECKPOINTS.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 40_000_000


def test_each_recipe_is_listed_with_what_it_takes(capsys):
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {*FACTS} == {*RECIPES, *STAGED_RECIPES, *STAGED_PRESETS}
    assert all(any(line.startswith(f"{name} ") for line in lines) for name in FACTS)
    (of_simulator,) = [line for line in lines if line.startswith("primitive_tiny ")]
    assert "make drivers" in of_simulator
    assert main(["list", "frozenlake_tiny"]) == 2
    assert "takes no arguments" in capsys.readouterr().err
    assert main(["list", "--help"]) == main(["list", "-h"]) == 0
    assert capsys.readouterr().out.startswith("usage: python -m training list\n")


def test_recipes_of_the_tiny_vlm_take_one_thread():
    staged = [stage.run for name, recipe in STAGED_RECIPES.items() if "_tiny" in name for stage in recipe().stages]
    runs = [*(recipe() for name, recipe in RECIPES.items() if name.endswith("_tiny")), *staged]
    numbers = [run.num_threads for run in runs if hasattr(run, "num_threads")]
    assert len(numbers) > 20 and set(numbers) == {1}, "several wait for each other where a core is taken"
