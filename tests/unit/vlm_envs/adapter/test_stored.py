import json

import gymnasium as gym
import pytest

import vlm_envs
from tests.unit.vlm_envs.adapter import tally
from vlm_envs.adapter import adapter_settings
from vlm_envs.adapter.stored import (
    changed_arguments,
    changed_functions,
    defining_packages,
    differing,
    fixed,
    moved,
    restored,
    stored_arguments,
)
from vlm_envs.errors import ConfigError
from vlm_envs.registration import registered_name

TALLY = "Tests/Tally-v0"
TALLY_FILE = f'env = "{TALLY}"\nname = "count"\nmax_turns = 4\n[actions]\ngo = 0\n'
ARGUMENTS = {"name": "count", "env": TALLY, "max_turns": 4, "actions": {"go": 0}}


@pytest.fixture(autouse=True)
def _registry(monkeypatch):
    """Forgets what a test registers."""
    monkeypatch.setattr(gym.envs.registration, "registry", {**gym.registry})
    monkeypatch.setattr(gym, "registry", gym.envs.registration.registry)
    monkeypatch.setattr(adapter_settings, "SOURCES", {})


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "count.toml").write_text(TALLY_FILE)
    return tmp_path / "count.toml"


def test_arguments_of_an_adapted_world_are_plain_data_with_functions_by_name(file):
    assert stored_arguments("adapt:count.toml") == {**ARGUMENTS, "file": str(file)}
    assert stored_arguments("adapt:count.toml", file.parent / "runs" / "one")["file"] == "../../count.toml"
    env_id = vlm_envs.adapt(TALLY, rules=("One.",), plan=tally.plan, success=lambda *_: True)
    arguments = stored_arguments(env_id)
    assert arguments["plan"] == "tests.unit.vlm_envs.adapter.tally:plan" and "<lambda>" in arguments["success"]
    assert json.loads(json.dumps(arguments)) == arguments and arguments["rules"] == ["One."]
    assert stored_arguments("VLM/Sokoban-v0") is None


def test_changed_arguments_are_named_unless_the_file_is_gone(file):
    assert changed_arguments("adapt:count.toml", ARGUMENTS) == []
    file.write_text(TALLY_FILE.replace("max_turns = 4", 'goal = "Count."'))
    assert changed_arguments("adapt:count.toml", ARGUMENTS) == ["max_turns", "goal"]
    file.unlink()
    assert changed_arguments("adapt:count.toml", ARGUMENTS) == []
    assert differing(ARGUMENTS, {**ARGUMENTS, "env": f"some_module:{TALLY}"}) == []


def test_a_record_stands_for_its_id_within_the_block_whatever_the_file_holds(file):
    file.write_text(TALLY_FILE.replace("4", "9"))
    with restored("adapt:count.toml", ARGUMENTS):
        assert vlm_envs.make("adapt:count.toml").unwrapped.max_turns == 4
    assert vlm_envs.make("adapt:count.toml").unwrapped.max_turns == 9
    file.unlink()
    with restored("adapt:count.toml", ARGUMENTS):
        assert vlm_envs.make("adapt:count.toml").unwrapped.max_turns == 4
    with pytest.raises(ConfigError, match="cannot be read"):
        registered_name("adapt:count.toml")


@pytest.fixture
def described(file):
    """A file with a function beside it, and its record in `board`."""
    (file.parent / "count_words.py").write_text("def describe(env):\n    return 'Words.'\n")
    file.write_text('describe = "count_words:describe"\n' + TALLY_FILE)
    record = stored_arguments("adapt:count.toml", file.parent / "board")
    gym.registry.pop("Adapted/count")
    adapter_settings.SOURCES.clear()
    return record


def test_a_record_leads_to_its_functions_from_anywhere_without_the_file(file, described, tmp_path, monkeypatch):
    file.unlink()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert described["describe"] == "../count_words:describe" and described["file"] == "../count.toml"
    with restored("adapt:count.toml", described, tmp_path / "board"):
        assert vlm_envs.make("adapt:count.toml").unwrapped.dynamics.simulator.describe_function
        assert stored_arguments("adapt:count.toml", tmp_path / "board") == described


def test_a_record_that_was_moved_leads_to_functions_beside_the_named_file(file, described, tmp_path):
    moved_to = tmp_path / "far" / "away"
    with restored("adapt:count.toml", described, moved_to):
        assert vlm_envs.make("adapt:count.toml").unwrapped.dynamics.simulator.describe_function
    again = moved(described, tmp_path / "board", moved_to)
    assert again["file"] == "../../count.toml" and again["describe"] == "../../count_words:describe"
    assert differing(described, again) == []


def test_changes_are_found_from_anywhere(file, described, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    record = "adapt:count.toml", described, tmp_path / "board"
    assert changed_arguments(*record) == changed_functions(*record) == []
    with (tmp_path / "count_words.py").open("a") as functions:
        functions.write("# faster\n")
    file.write_text(file.read_text().replace("4", "9"))
    assert changed_arguments(*record) == ["max_turns"] and changed_functions(*record) == ["count_words.py"]
    (tmp_path / "count_words.py").unlink()
    assert changed_functions(*record) == []
    with restored(*record), pytest.raises(ConfigError, match=r"count_words\.py"):
        vlm_envs.make("adapt:count.toml")


def test_a_fixed_world_stays_the_same_while_its_file_is_edited(file):
    with fixed(["adapt:count.toml", "VLM/Sokoban-v0"]):
        file.write_text(TALLY_FILE.replace("4", "9"))
        assert gym.spec(registered_name("adapt:count.toml")).kwargs["max_turns"] == 4
    assert gym.spec(registered_name("adapt:count.toml")).kwargs["max_turns"] == 9


def test_a_record_of_a_world_adapted_in_python_is_registered_where_it_is_not_yet():
    with restored("Adapted/count", ARGUMENTS):
        assert registered_name("Adapted/count") in gym.registry
    assert "Adapted/count" not in gym.registry
    assert changed_arguments("Adapted/count", ARGUMENTS) == []


def test_the_package_of_an_environment_is_that_of_its_class():
    assert "gymnasium" in defining_packages({"env": "FrozenLake-v1"})
    assert "gymnasium" in defining_packages(ARGUMENTS), "the base class of code that is not installed"
    assert defining_packages({"env": "no_such_module:No/Such-v0"}) == {}
