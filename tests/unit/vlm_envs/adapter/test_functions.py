"""Functions of adapted worlds come from the module beside the TOML file, whatever else has its name."""

import pickle
import sys
import types

import gymnasium as gym
import pytest

import vlm_envs
from vlm_envs.adapter import adapter_settings
from vlm_envs.adapter.adapter_settings import digests, function_of, located, relative, without_folders
from vlm_envs.errors import ConfigError

HELPER = """import sibling

def describe(env):
    return f"Words of {sibling.WHO}."
"""


def write_world(folder, who):
    """Writes a TOML file, the module with its function, and a module that this one imports."""
    folder.mkdir()
    (folder / "own_words.py").write_text(HELPER)
    (folder / "sibling.py").write_text(f"WHO = {who!r}\n")
    text = f'env = "FrozenLake-v1"\nname = "words-{who}"\ndescribe = "own_words:describe"\n'
    (folder / "lake.toml").write_text(text)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(adapter_settings, "SOURCES", {})
    monkeypatch.chdir(tmp_path)
    for who in ("first", "second"):
        write_world(tmp_path / who, who)
    yield tmp_path
    for who in ("first", "second"):
        gym.registry.pop(f"Adapted/words-{who}", None)
    for name in ("own_words", "sibling"):
        sys.modules.pop(name, None)


def words_of(env_id):
    return vlm_envs.make(env_id, obs_mode="text").reset(seed=0)[0]["text"]


def test_each_file_has_the_functions_beside_it(folder, monkeypatch):
    other = types.ModuleType("own_words")
    monkeypatch.setitem(sys.modules, "own_words", other)
    assert "Words of first." in words_of("adapt:first/lake.toml")
    assert "Words of second." in words_of("adapt:second/lake.toml")
    assert sys.modules["own_words"] is other


def test_functions_do_not_come_from_the_current_folder(folder, monkeypatch):
    monkeypatch.chdir(folder / "second")
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    assert "Words of first." in words_of("adapt:../first/lake.toml")


def test_a_module_that_is_loaded_from_this_file_is_not_loaded_again(folder, monkeypatch):
    monkeypatch.syspath_prepend(str(folder / "first"))
    import own_words

    assert function_of("describe", f"{folder / 'first' / 'own_words'}:describe") is own_words.describe


def test_packages_and_modules_in_them_may_hold_functions(folder):
    package = folder / "first" / "planning"
    package.mkdir()
    (package / "__init__.py").write_text("from .search import plan\n")
    (package / "search.py").write_text("def plan(env):\n    return ['left']\n")
    arguments = {"plan": "planning:plan", "describe": "planning.search:plan", "success": "info:won"}
    found = located(arguments, folder, str(folder / "first"))
    assert function_of("plan", found["plan"]) is function_of("describe", found["describe"])
    assert found["success"] == "info:won" and digests(found).keys() == {"planning/__init__.py", "planning/search.py"}


def test_worker_processes_and_copies_find_them(folder):
    worlds = vlm_envs.make_vec("adapt:first/lake.toml", 1, obs_mode="text", workers="process", start_method="spawn")
    observations, _ = worlds.reset(seed=[0])
    worlds.close()
    assert "Words of first." in observations[0]["text"]
    dynamics = vlm_envs.make("adapt:second/lake.toml").unwrapped.dynamics
    copy = pickle.loads(pickle.dumps(dynamics.simulator))
    assert copy.describe(copy.start(0)) == "Words of second."


def test_a_missing_module_and_a_fault_in_one_are_named(folder):
    file = folder / "first" / "own_words.py"
    with pytest.raises(ConfigError, match=r"own_words\.py.* line 1: .*no_such_module"):
        file.write_text("import no_such_module\n")
        words_of("adapt:first/lake.toml")
    with pytest.raises(ConfigError, match=r"second/own_wards\.py"):
        function_of("plan", f"{folder / 'second' / 'own_wards'}:plan")
    with pytest.raises(ConfigError, match="Did you mean 'describe'"):
        function_of("plan", f"{folder / 'second' / 'own_words'}:descibe")
    with pytest.raises(ConfigError, match="cannot import 'info'"):
        function_of("describe", "info:words")


def test_folders_are_relative_to_the_record_and_make_no_difference(folder):
    named = located({"describe": "own_words:describe", "goal": "a: b"}, folder, str(folder / "first"))
    kept = relative(named, folder / "second")
    assert kept == {"describe": "../first/own_words:describe", "goal": "a: b"}
    assert located(kept, folder / "second", "") == named
    assert located(kept, folder / "other" / "place", str(folder / "second"))["describe"].startswith(
        str(folder / "second")
    )
    assert without_folders(kept)["describe"] == "own_words:describe"
