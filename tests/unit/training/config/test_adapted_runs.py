"""Runs in adapted worlds save what describes these, and are not resumed under other settings."""

import json
import sys

import gymnasium as gym
import pytest

import vlm_envs
from tests.unit.training.batches import run_config
from training import commands
from training.commands import _directory_of, main
from training.config.resume import check_same_run, check_same_worlds, recorded_worlds, saved_config
from training.config.world_spec import WorldSpec
from training.recipes.tiny import name_for
from training.run_options import find_recipe
from training.stages.stages_config import save_stages, saved_stages
from vlm_envs.adapter import adapter_settings
from vlm_envs.errors import ConfigError
from vlm_envs.registration import registered_name

LAKE = 'env = "FrozenLake-v1"\nname = "run-lake"\nmax_turns = 3\n'


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Writes a run's configuration, and returns it with its directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(adapter_settings, "SOURCES", {})
    (tmp_path / "lake.toml").write_text(LAKE)
    config = run_config(worlds=(WorldSpec(env_id="adapt:lake.toml"),))
    directory = tmp_path / "runs" / "lake_tiny"
    directory.mkdir(parents=True)
    (directory / "config.json").write_text(json.dumps(config.to_dict()))
    yield config, directory
    gym.registry.pop("Adapted/run-lake", None)


def test_a_run_is_not_resumed_after_its_file_changed(run):
    config, directory = run
    with recorded_worlds(directory):
        check_same_run(config, directory)
    (directory.parents[1] / "lake.toml").write_text(LAKE.replace("max_turns = 3", 'goal = "Go."'))
    with (
        pytest.raises(ConfigError, match=r"lake\.toml has changed since: max_turns, goal\."),
        recorded_worlds(directory),
    ):
        pass
    with pytest.raises(ConfigError, match=r"max_turns of --worlds\.0, an adapted world: the run has 3"):
        check_same_run(config, directory)


def test_a_run_is_resumed_without_its_file(run):
    config, directory = run
    (directory.parents[1] / "lake.toml").unlink()
    gym.registry.pop("Adapted/run-lake")
    with recorded_worlds(directory):
        assert saved_config(directory) == config
        assert gym.spec(registered_name("adapt:lake.toml")).kwargs["max_turns"] == 3
        check_same_run(config, directory)


def test_the_command_refuses_a_changed_file_and_needs_none(run, capsys):
    _, directory = run
    file = directory.parents[1] / "lake.toml"
    file.write_text(LAKE.replace("3", "4"))
    assert main(["adapt:lake.toml", "--resume"]) == 2
    assert "lake.toml has changed since: max_turns." in capsys.readouterr().err
    file.unlink()
    assert main(["adapt:lake.toml", "--resume"]) == 2, "this run has no checkpoint"
    assert "cannot be read" not in capsys.readouterr().err


def test_a_run_is_resumed_from_another_spelling_of_its_file(run):
    config, directory = run
    file = directory.parents[1] / "lake.toml"
    for spelling in ("./lake.toml", f"../{file.parent.name}/lake.toml", str(file)):
        check_same_worlds("recipe", [WorldSpec(env_id=f"adapt:{spelling}")], config)
    (file.parent / "other.toml").write_text(LAKE.replace("run-lake", "other-lake"))
    with pytest.raises(ConfigError, match=r"trains adapt:other\.toml"):
        check_same_worlds("recipe", [WorldSpec(env_id="adapt:other.toml")], config)
    gym.registry.pop("Adapted/other-lake")


def test_changed_functions_are_named_and_do_not_keep_a_run_from_being_resumed(run, capsys):
    _, directory = run
    folder = directory.parents[1]
    (folder / "lake_plan.py").write_text("def plan(env):\n    return None\n")
    (folder / "lake.toml").write_text('plan = "lake_plan:plan"\n' + LAKE)
    config = run_config(worlds=(WorldSpec(env_id="adapt:lake.toml"),), name="lake_tiny", output="runs")
    (directory / "config.json").write_text(json.dumps(config.to_dict()))
    (folder / "lake_plan.py").write_text("def plan(env):\n    return []\n")
    with recorded_worlds(directory):
        check_same_run(config, directory)
    assert "lake_plan.py" in capsys.readouterr().err


RECIPE = """from dataclasses import replace

from tests.unit.training.batches import run_config
from training.stages.stages_config import STAGE_BEFORE, Stage, StagesConfig
from training.config.world_spec import WorldSpec


def two_stages() -> StagesConfig:
    run = run_config(worlds=(WorldSpec(env_id="adapt:lake.toml"),), model="start")
    stages = Stage(name="first", run=run), Stage(name="second", run=replace(run, model=STAGE_BEFORE))
    return StagesConfig(name="staged", stages=stages)
"""


@pytest.fixture
def staged(run):
    """A recipe of two stages in the adapted world, and the directory of a run of it that has just begun."""
    folder = run[1].parents[1]
    (folder / "two_stages.py").write_text(RECIPE)
    recipe, _ = find_recipe(["--recipe", "two_stages.py"])
    directory = folder / "runs" / "staged"
    directory.mkdir()
    save_stages(recipe.made(), [])
    yield directory
    sys.path.remove(str(folder))
    sys.modules.pop("two_stages")


def test_stages_are_saved_with_their_adapted_worlds(staged):
    config, _ = saved_stages(staged)
    assert config.env_ids == ("adapt:lake.toml",)
    saved = json.loads((staged / "stages.json").read_text())
    assert saved["adapted"]["adapt:lake.toml"]["file"] == "../../lake.toml"
    assert not any("adapted" in world for stage in saved["stages"] for world in stage["run"]["worlds"])


def test_stages_are_not_resumed_after_their_file_changed_and_need_none(staged, capsys):
    command = ["--recipe", "two_stages.py", "--name", "staged", "--resume"]
    file = staged.parents[1] / "lake.toml"
    file.write_text(LAKE.replace("3", "4"))
    assert main(command) == 2
    assert "lake.toml has changed since: max_turns." in capsys.readouterr().err
    file.unlink()
    gym.registry.pop("Adapted/run-lake")
    assert main(command) == 2, "there is no checkpoint to start from"
    told = capsys.readouterr().err
    assert "cannot be read" not in told and "start" in told


def test_an_edit_during_a_stage_does_not_change_the_next_one(staged, monkeypatch):
    file = staged.parents[1] / "lake.toml"

    def edited(config, *, resume):
        file.write_text(LAKE.replace("3", "4"))
        played.extend(vlm_envs.make(env_id).unwrapped.max_turns for env_id in config.env_ids)
        raise ConfigError("enough")

    played = []
    monkeypatch.setattr(commands, "checked_stages", edited)
    assert main(["--recipe", "two_stages.py"]) == 2
    assert played == [3]


def test_the_directory_is_known_without_the_file():
    recipe, words = find_recipe(["adapt:gone/Lake.toml", "--output", "out"])
    assert str(_directory_of(recipe, words)) == "out/lake_tiny"


@pytest.mark.parametrize(
    ("env_id", "name"),
    [
        ("adapt:doorkey.toml", "doorkey_tiny"),
        ("adapt:worlds/Door.toml", "door_tiny"),
        ("adapt:DOOR.TOML", "door_tiny"),
        ("adapt:FrozenLake-v1", "frozenlake_tiny"),
        ("own_world:Own/Bulbs-v0", "bulbs_tiny"),
    ],
)
def test_runs_are_called_after_their_world(env_id, name):
    assert name_for(env_id) == name
