"""The list of recipes states what each recipe needs, and `make train` installs it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from functools import partial
from pathlib import Path

import pytest

import training.commands
from training.__main__ import main
from training.config.run_config import RunConfig
from training.curation.curation_config import CurateConfig
from training.recipes import listing, shipped
from training.recipes.listing import COMMANDS, FACTS, summaries
from training.recipes.shipped import OF_A_WORLD, RECIPES, STAGED_PRESETS, STAGED_RECIPES
from training.recipes.vagen import SETTINGS
from vlm_envs.registration import NEEDS, need_of, registered_name

CHECKOUT = Path(__file__).parents[4]
ALL = RECIPES | STAGED_RECIPES | STAGED_PRESETS
WORLDS = {f"{name}:{world}": partial(preset, world) for name, preset in OF_A_WORLD.items() for world in SETTINGS}
EXTRAS = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

PACKAGES_OF_TRAINING = frozenset({"matplotlib", "pydantic"})
"""What worlds import, by import name, and the extra `train` brings as well."""


def extras_of(made):
    """Returns the extras that a recipe's worlds need, sorted; without those that bring no more than `train` does."""
    needs = filter(None, (need_of(registered_name(spec.env_id)) for spec in worlds_of(made)))
    return tuple(sorted({need.extra for need in needs if not PACKAGES_OF_TRAINING.issuperset(need.packages)}))


def worlds_of(made):
    """Yields the worlds of a run, or of all stages of one."""
    for run in (made,) if isinstance(made, RunConfig) else (stage.run for stage in made.stages):
        if isinstance(run, RunConfig):
            yield from run.worlds
        elif isinstance(run, CurateConfig):
            yield from run.specs


def whole(*extras: str) -> set[str]:
    """Returns extras with those that they stand for: `sim` is navigation, manipulation and svg."""
    own = [each.removeprefix("vlm-envs[").removesuffix("]").split(",") for extra in extras for each in EXTRAS[extra]
           if each.startswith("vlm-envs[")]  # fmt: skip
    inner = {name for names in own for name in names}
    return {*extras} | (whole(*inner) if inner else set())


@pytest.fixture
def clone(tmp_path) -> Path:
    """What `make` reads of a fresh clone, in which nothing is installed."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(CHECKOUT / name, tmp_path)
    return tmp_path


def installed_by_make(clone: Path, recipe: str) -> set[str]:
    command = ["make", "--dry-run", "train", f"CONFIG={recipe}"]
    # `make test PYTHON=...` passes its variables on to every make below it.
    of_make = ("MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS", "PYTHON", "BASE_PYTHON")
    environment = {name: value for name, value in os.environ.items() if name not in of_make}
    told = subprocess.run(
        command, cwd=clone, env=environment, capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert f"-m training {recipe}" in told
    return {extra for each in re.findall(r"--editable '\.\[(.+?)\]'", told) for extra in whole(*each.split(","))}


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize("recipe", [*ALL, *WORLDS])
def test_make_train_installs_what_the_recipes_worlds_need_and_no_more(recipe, clone):
    besides = installed_by_make(clone, recipe) - whole("train")
    needed = {*extras_of((ALL | WORLDS)[recipe]())}
    assert besides == {*whole("sim"), *(needed - whole("sim"))} if needed & whole("sim") else besides == needed


def test_the_list_is_of_the_recipes_there_are_and_of_what_they_need():
    assert {name: facts.extras for name, facts in FACTS.items()} == {name: extras_of(ALL[name]()) for name in FACTS}
    assert list(FACTS) == [*ALL]
    assert summaries() == {name: recipe.__doc__.strip().partition("\n")[0] for name, recipe in ALL.items()}
    assert tuple(shipped.FIRST_STARTS) == listing.FIRST_STARTS
    assert list(COMMANDS) == list(training.commands.COMMANDS)


def test_training_brings_what_it_is_said_to_bring():
    brought = {re.split(r"[<>=\[]", each)[0] for extra in whole("train") for each in EXTRAS[extra]}
    assert brought >= PACKAGES_OF_TRAINING


def test_a_recipe_whose_world_needs_what_pip_cannot_install_says_so():
    for name, recipe in RECIPES.items():
        needs = [need_of(spec.env_id) for spec in recipe().worlds]
        is_bare = not any(need is not None and need.besides for need in needs)
        assert ("make drivers" not in FACTS[name].needs) == is_bare, name
    assert NEEDS["VLM/SVG-v0"].besides, "which is among them"


def test_the_list_says_what_is_needed_besides_training(capsys):
    assert main(["list"]) == 0
    shown = capsys.readouterr().out
    needs = {line.split()[0]: re.split(r"  +", line)[2] for line in shown.splitlines()[1 : 1 + len(ALL)]}
    assert needs["docqa_tiny"] == ".[tools]"
    assert needs["svg_tiny"] == ".[svg], make drivers (root)"
    assert needs["frozenlake_tiny"] == "nothing"
    assert "make train CONFIG=RECIPE" in shown


@pytest.mark.parametrize("word", ["--help", "list"])
def test_neither_help_nor_the_list_imports_torch_or_recipes(word):
    code = (
        f"import sys; from training.__main__ import main; main([{word!r}]); "
        "print({'torch', 'pydantic', 'training.recipes.tiny', 'training.config.run_config'} & set(sys.modules))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=CHECKOUT, timeout=60)
    assert shown.stdout.splitlines()[-1] == "set()", shown.stderr
