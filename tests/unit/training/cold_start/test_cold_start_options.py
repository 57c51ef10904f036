"""Options of `python -m training cold_start`: recipes, and initial stages from which others continue."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from training.__main__ import main
from training.cold_start.cold_start_options import cold_start_options, next_command, start_directory
from training.recipes.shipped import FIRST_STARTS, RECIPES, recipe_after
from training.run_options import find_recipe
from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import RunExistsError

BY_OPTIONS = {
    "primitive_two_cubes": (
        "primitive_tiny --name primitive_two_cubes --cold-start.start-from None --worlds.0.kwargs.num-cubes 2 "
        "--worlds.0.kwargs.max-actions-per-turn 4 --cold-start.num-steps 400 --cold-start.num-first-turn-steps 400 "
        "--cold-start.suboptimal-rate 0"
    ),
    "mix_first_steps": (
        "mix_tiny --name mix_first_steps --cold-start.start-from None --cold-start.num-steps 8000 "
        "--cold-start.num-copying-steps 900 --cold-start.num-first-turn-steps 1500 --cold-start.residual-scale 0.15 "
        "--worlds.0.cold-start-weight 2 --worlds.1.cold-start-weight 2 --worlds.2.cold-start-weight 1.5 "
        "--worlds.3.cold-start-weight 3 --worlds.4.cold-start-weight 2.5 --worlds.5.cold-start-weight 2 "
        "--worlds.6.cold-start-weight 3 --worlds.7.cold-start-weight 0.2 --worlds.8.cold-start-weight 0.8"
    ),
}
"""How the recipe that goes on from a start would make it."""


@pytest.mark.parametrize("name", FIRST_STARTS)
def test_a_first_start_is_its_recipes_with_these_options(name):
    _, made = cold_start_options([name])
    _, by_options = cold_start_options(shlex.split(BY_OPTIONS[name]))
    assert made == by_options
    assert made.to_dict() == by_options.to_dict()


def test_options_change_a_first_start():
    recipe, config = cold_start_options(["primitive_two_cubes", "--name", "x", "--cold-start.num-steps", "500"])
    own = FIRST_STARTS["primitive_two_cubes"]()
    assert recipe.name == "primitive_two_cubes"
    assert config == replace(own, name="x", cold_start=replace(own.cold_start, num_steps=500))


def test_what_is_done_next_is_to_go_on_from_it_or_to_train(tmp_path):
    made = tmp_path / "x_cold_start"
    (first, _), (whole, _) = cold_start_options(["mix_first_steps"]), cold_start_options(["mix_tiny"])
    assert next_command(whole, made) == f"Train from it: python -m training mix_tiny --model {made}"
    told = next_command(first, made)
    assert told == f"Continue from it: python -m training cold_start mix_tiny --cold-start.start-from {made}"
    recipe, config = cold_start_options(shlex.split(told.partition(" cold_start ")[2]))
    assert (recipe.name, config.cold_start.start_from) == ("mix_tiny", str(made))


def test_a_recipe_goes_on_from_each():
    assert {name: recipe_after(name) for name in FIRST_STARTS} == {
        "mix_first_steps": "mix_tiny",
        "primitive_two_cubes": "primitive_tiny",
    }
    for name in FIRST_STARTS:
        start = RECIPES[recipe_after(name)]().cold_start.start_from
        assert start is not None and Path(start).name == name


def test_whatever_has_the_name_keeps_it(tmp_path):
    _, config = cold_start_options(["videoqa_tiny", "--output", str(tmp_path)])
    names = ["videoqa_tiny", *(f"videoqa_tiny-{number}" for number in (2, 3, 4))]
    empty, file, link, free = (tmp_path / f"{name}_cold_start" for name in names)
    empty.mkdir()
    assert start_directory(config, is_named=True) == start_directory(config, is_named=False) == empty
    (empty / "note.txt").touch()
    file.touch()
    (tmp_path / "disk").mkdir()
    link.symlink_to(tmp_path / "disk")
    assert start_directory(config, is_named=False) == free
    with pytest.raises(RunExistsError, match="already exists"):
        start_directory(config, is_named=True)


@pytest.mark.parametrize("command", [[], ["plan"], ["pool"]])
@pytest.mark.parametrize("name", FIRST_STARTS)
@pytest.mark.sample(3)
def test_nothing_trains_a_first_start(name, command, capsys):
    with pytest.raises(ConfigError, match=name):
        find_recipe([name])
    assert main([*command, name]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith(f"error: {name} is not a recipe") and recipe_after(name) in said
    assert said.endswith(f"python -m training cold_start {name}")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("mix_first_step", "got ['mix_first_step']. Did you mean 'mix_first_steps'?"),
        ("primitive_two_cube", "Did you mean 'primitive_two_cubes'?"),
        ("", "mix_first_steps, primitive_two_cubes), a world's id"),
        ("mix_first_steps --model x", "To continue from that checkpoint: --cold-start.start-from x"),
        ("mix_first_steps --resume", "--cold-start.start-from DIR"),
        ("mix_first_steps --cold-start.num-step 5", "--cold-start.num-step"),
    ],
)
def test_mistakes_are_explained(words, said, capsys):
    assert main(["cold_start", *words.split()]) == 2
    assert said in capsys.readouterr().err


def test_help_and_the_list_name_them(capsys):
    assert main(["cold_start", "--help"]) == main(["list"]) == 0
    shown = capsys.readouterr().out
    assert "continue: mix_first_steps, primitive_two_cubes." in shown
    assert f"Some cold starts continue from {' or '.join(FIRST_STARTS)}:" in shown.splitlines()
    assert not any(line.startswith(tuple(FIRST_STARTS)) for line in shown.splitlines()), "they are no recipes"
