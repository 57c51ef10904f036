import gymnasium as gym
import numpy as np
import pytest

import vlm_envs
from tests.unit.vlm_envs.adapter import tally
from vlm_envs import registration
from vlm_envs.adapter import adapter_settings
from vlm_envs.adapter.adapter_settings import function_of
from vlm_envs.errors import ConfigError
from vlm_envs.registration import arguments_of, registered_name

TALLY = "Tests/Tally-v0"


@pytest.fixture(autouse=True)
def _registry(monkeypatch):
    """Forgets what a test registers."""
    monkeypatch.setattr(gym.envs.registration, "registry", {**gym.registry})
    monkeypatch.setattr(gym, "registry", gym.envs.registration.registry)
    monkeypatch.setattr(adapter_settings, "SOURCES", {})


def test_the_id_comes_from_the_environment_or_the_name():
    assert vlm_envs.adapt(TALLY) == "Adapted/Tests-Tally-v0"
    assert vlm_envs.adapt("tests.unit.vlm_envs.adapter.tally:Tests/Tally-v0", name="count") == "Adapted/count"


def test_settings_are_the_arguments_of_the_registered_world():
    env_id = vlm_envs.adapt(TALLY, actions={"go": np.int64(1)}, rules=("One.",), max_turns=7)
    assert arguments_of(env_id, {})["max_turns"] == 7
    assert gym.spec(env_id).kwargs == {"env": TALLY, "actions": {"go": 1}, "rules": ["One."], "max_turns": 7}


def test_the_same_settings_change_nothing_and_others_replace_with_a_warning(recwarn):
    env_id = vlm_envs.adapt(TALLY, actions={"go": (1,)}, name="same")
    first = gym.spec(env_id)
    assert vlm_envs.adapt(TALLY, actions={"go": [1]}, name="same") == env_id
    assert gym.spec(env_id) is first and not recwarn
    with pytest.warns(UserWarning, match="same"):
        vlm_envs.adapt(TALLY, goal="Count.", name="same")
    assert gym.spec(env_id).kwargs["goal"] == "Count."


def test_adapt_in_front_of_an_id_or_a_file_is_an_id(tmp_path):
    file = tmp_path / "count.toml"
    file.write_text(f'env = "{TALLY}"\nname = "count"\nmax_turns = 4\n[actions]\ngo = 0\n[make]\nlast = 2\n')
    assert registered_name(f"adapt:{file}") == registered_name(f"adapt:{file}") == "Adapted/count"
    assert registered_name(f"adapt:{TALLY}") == "Adapted/Tests-Tally-v0"
    assert registered_name("adapt:tests.unit.vlm_envs.adapter.tally:Tests/Tally-v0") == "Adapted/Tests-Tally-v0"
    world = vlm_envs.make(f"adapt:{file}").unwrapped
    assert world.max_turns == 4 and world.task.action_names == ("go",)


def test_a_file_may_change_but_not_take_the_name_of_another_world(tmp_path):
    file = tmp_path / "count.toml"
    file.write_text(f'env = "{TALLY}"\nname = "count"\n')
    registered_name(f"adapt:{file}")
    file.write_text(f'env = "{TALLY}"\nname = "count"\ngoal = "Count."\n')
    assert gym.spec(registered_name(f"adapt:{file}")).kwargs["goal"] == "Count."
    other = tmp_path / "other.toml"
    other.write_text(f'env = "{TALLY}"\nname = "count"\n')
    with pytest.raises(ConfigError, match=r"name = 'count-2'"):
        registered_name(f"adapt:{other}")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "env"),
        ("env = 3", "got 3"),
        ("env = ", "cannot be read"),
        (f'env = "{TALLY}"\ngaol = "x"', "Did you mean 'goal'?"),
        (f'env = "{TALLY}"\nactions = 3', "actions must be"),
        (f'env = "{TALLY}"\nrules = "x"', "rules must be"),
        (f'env = "{TALLY}"\ngoal = 1', "goal must be"),
        (f'env = "{TALLY}"\nsuccess = "rewards"', "success must be 'reward'"),
        (f'env = "{TALLY}"\nsuccess = true', "success must be"),
        (f'env = "{TALLY}"\nsuccess = nan', "success must be"),
        (f'env = "{TALLY}"\nplan = "nothing"', "module:function"),
        (f'env = "{TALLY}"\nhint = "mission"', "hint must be"),
        (f'env = "{TALLY}"\nmake = 1', "make must be"),
        (f'env = "{TALLY}"\nmake = {{ render_mode = "human" }}', "must be 'rgb_array'"),
        (f'env = "{TALLY}"\nimage_px = 2', "image_px must be"),
        (f'env = "{TALLY}"\nmax_turns = 0', "max_turns must be"),
        (f'env = "{TALLY}"\nname = "a b"', "name must"),
        (f'env = "{TALLY}"\nname = 1', "name must"),
        ('env = "Tests/Taly-v0"', "Did you mean 'Tests/Tally-v0'?"),
        ('env = "no_such_module_here:X-v0"', "no_such_module_here"),
        ('env = "Adapted/X-v0"', "not a registered"),
    ],
)
def test_wrong_files_are_explained_in_one_line(text, words, tmp_path):
    file = tmp_path / "wrong.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        registered_name(f"adapt:{file}")
    assert words in str(caught.value) and "wrong.toml" in str(caught.value) and "\n" not in str(caught.value)


def test_missing_files_packages_and_second_adaptations_are_explained(monkeypatch):
    with pytest.raises(ConfigError, match=r"nowhere\.toml: the file cannot be read"):
        registered_name("adapt:nowhere.toml")
    monkeypatch.setattr(adapter_settings, "PACKAGES", {"Lacking": "no_such_package"})
    with pytest.raises(ConfigError, match="pip install no-such-package"):
        registered_name("adapt:LackingEnv-v0")
    with pytest.raises(ConfigError, match="already an adapted world"):
        vlm_envs.adapt(vlm_envs.adapt(TALLY))
    with pytest.raises(ConfigError, match="no argument 'max_turn'"):
        vlm_envs.adapt(TALLY, max_turn=3)


def test_ids_without_the_prefix_name_the_id_to_use(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "count.toml").write_text(f'env = "{TALLY}"\nname = "count"\n')
    monkeypatch.setattr(registration, "PACKAGES", {"Lacking": "no_such_package"})
    for text in (TALLY, tally.__name__ + ":" + TALLY, "count.toml", "Lacking-Env-v0"):
        for use in (vlm_envs.make, vlm_envs.make_vec):
            with pytest.raises(ConfigError, match=f"adapt:{text}$"):
                use(text)
    assert vlm_envs.make("adapt:count.toml").spec.id == "Adapted/count"
    with pytest.raises(ConfigError, match=r"Unknown env 'none\.toml'"):
        registered_name("none.toml")


def test_the_name_of_a_file_without_its_ending_names_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lower.toml").write_text(f'env = "{TALLY}"\n')
    with pytest.raises(ConfigError, match=r"'lower' is not .* Did you mean 'adapt:lower\.toml'\?$"):
        registered_name("adapt:lower")


@pytest.mark.parametrize("names", [("count", "count-v0"), ("count-v0", "count")])
def test_names_that_differ_in_having_a_version_are_explained(names):
    vlm_envs.adapt(TALLY, name=names[0])
    with pytest.raises(ConfigError, match=rf"Adapted/{names[1]} conflicts with Adapted/{names[0]}:"):
        vlm_envs.adapt(TALLY, name=names[1], goal="Count.")


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"name": "."}, "name must"),
        ({"name": ".."}, "name must"),
        ({"name": "x" * 300}, "name must"),
        ({"max_turns": 0}, "max_turns must"),
        ({"max_actions_per_turn": -1}, "max_actions_per_turn must"),
        ({"action_mode": "discrete"}, "no argument 'action_mode'"),
        ({"num_levels": 3}, "no argument 'num_levels'"),
    ],
)
def test_arguments_are_checked_when_a_world_is_adapted(kwargs, words):
    with pytest.raises(ConfigError, match=words) as caught:
        vlm_envs.adapt(TALLY, **kwargs)
    assert len(str(caught.value)) < 700


def test_older_versions_are_made_without_a_warning(recwarn):
    gym.register("Tests/Tally-v1", tally.TallyEnv)
    old, _ = (vlm_envs.adapt(f"Tests/Tally-v{version}", success="reward") for version in range(2))
    gym.make(old)
    assert not [warning for warning in recwarn if "out of date" in str(warning.message)]


def test_ids_that_only_look_like_one_are_explained(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Count.TOML").write_text(f'env = "{TALLY}"\nname = "upper"\n')
    assert registered_name("adapt:Count.TOML") == "Adapted/upper"
    with pytest.raises(ConfigError, match=r"expected NAME=VALUE after Count\.TOML:"):
        registered_name("adapt:Count.TOML:max_turns")
    with pytest.raises(ConfigError, match=r"--set max_turns=3\b.*--worlds\.0\.kwargs\.max-turns 3"):
        registered_name("adapt:Count.TOML:max_turns=3")
    with pytest.raises(ConfigError, match="env must be"):
        registered_name("adapt:")
    for make in (registered_name, vlm_envs.adapt):
        with pytest.raises(ConfigError, match=f"omit the prefix 'adapt' .*: '{TALLY}'"):
            make(f"{'adapt:' * (1 + (make is registered_name))}{TALLY}")


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"describe": "tests.unit.vlm_envs.adapter.tally:descibe"}, "Did you mean 'describe'?"),
        ({"plan": "no_such_module_here:plan"}, "no_such_module_here"),
        ({"hint": ["misson"]}, "Did you mean 'mission'?"),
        ({"make": {"lsat": 3}}, "lsat"),
        ({"make": {"frame": "none"}}, "renders no images"),
        ({"make": {"frame": "float"}}, "float64"),
        ({"make": {"space": "dict"}}, "Dict"),
        ({"obs_mode": "text"}, "describe"),
        ({"obs_mode": "image+description"}, "describe"),
    ],
)
def test_settings_that_do_not_fit_the_environment_are_explained(kwargs, words):
    with pytest.raises(ConfigError) as caught:
        vlm_envs.make(vlm_envs.adapt(TALLY, **kwargs))
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_functions_are_named_or_given():
    by_name = f"{tally.__name__}:describe"
    assert function_of("describe", by_name) is function_of("describe", tally.describe)


@pytest.mark.parametrize(
    ("display", "expected"), [({}, "egl"), ({"DISPLAY": ":0"}, None), ({"MUJOCO_GL": "osmesa"}, "osmesa")]
)
def test_libraries_draw_without_a_display_unless_there_is_one_or_a_choice(display, expected, monkeypatch):
    monkeypatch.setattr(adapter_settings.sys, "platform", "linux")
    monkeypatch.setattr(adapter_settings.os, "environ", {**display})
    adapter_settings.require_env(TALLY)
    assert adapter_settings.os.environ.get("MUJOCO_GL") == expected
    assert ("PYGLET_HEADLESS" in adapter_settings.os.environ) == ("DISPLAY" not in display)
