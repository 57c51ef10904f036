"""Runs in adapted worlds save what describes these, and are not resumed under other settings."""

import json

import gymnasium as gym
import pytest

from tests.unit.training.batches import run_config
from training.cli.command_line import find_recipe
from training.commands import _directory_of, main
from training.config.resume import check_same_run, recorded_worlds, saved_config
from training.config.worlds.spec import WorldSpec
from training.recipes.tiny import name_for
from vlm_envs.adapter import settings
from vlm_envs.errors import ConfigError
from vlm_envs.registration import registered_name

LAKE = 'env = "FrozenLake-v1"\nname = "run-lake"\nmax_turns = 3\n'


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Writes a run's configuration, and returns it with its directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(settings, "_SOURCES", {})
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


def test_a_run_of_an_earlier_version_is_resumed(run):
    config, directory = run
    saved = json.loads((directory / "config.json").read_text())
    del saved["worlds"][0]["adapted"]
    (directory / "config.json").write_text(json.dumps(saved))
    with recorded_worlds(directory):
        check_same_run(config, directory)


def test_the_directory_is_known_without_the_file():
    recipe, words = find_recipe(["adapt:gone/Lake.toml", "--output", "out"])
    assert str(_directory_of(recipe, words)) == "out/lake_tiny"


@pytest.mark.parametrize(
    ("env_id", "name"),
    [
        ("adapt:doorkey.toml", "doorkey_tiny"),
        ("adapt:worlds/Door.toml", "door_tiny"),
        ("adapt:FrozenLake-v1", "frozenlake_tiny"),
        ("own_world:Own/Bulbs-v0", "bulbs_tiny"),
    ],
)
def test_runs_are_called_after_their_world(env_id, name):
    assert name_for(env_id) == name
