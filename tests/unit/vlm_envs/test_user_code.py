"""Modules that users name in front of a world or an agent."""

import sys

import pytest

from agents.registry import make_agent
from vlm_envs.errors import ConfigError
from vlm_envs.registration import registered_name


@pytest.fixture
def parent(tmp_path, monkeypatch):
    """A folder from which `lonely_world/lonely_world.py` imports as a namespace package."""
    (tmp_path / "lonely_world").mkdir()
    (tmp_path / "lonely_world" / "lonely_world.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("lonely_world", None)


@pytest.mark.parametrize(
    "name", [lambda: registered_name("lonely_world:Own/Lonely-v0"), lambda: make_agent("lonely_world:Agent")]
)
def test_a_folder_in_place_of_a_module_is_reported_as_one(name, parent):
    with pytest.raises(ConfigError, match="'lonely_world' is a folder") as error:
        name()
    assert str(parent / "lonely_world") in str(error.value)
