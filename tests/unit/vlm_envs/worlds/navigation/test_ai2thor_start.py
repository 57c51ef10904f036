"""AI2-THOR is found, or it is said what is missing: executable, package, build."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest

from vlm_envs.errors import ConfigError, EngineUnavailableError
from vlm_envs.worlds.navigation.ai2thor_engine import make_ai2thor, start_controller
from vlm_envs.worlds.navigation.navigation_levels import Rules, Wanted
from vlm_envs.worlds.navigation.navigation_world import NavigationWorld

NO_BUILD = (
    "Invalid commit_id: f0825767cd50d69f666c7f282e54abfe58f1e917 - no build exists for arch=Linux "
    "platforms=CloudRendering"
)
"""What ai2thor 5.0.0 said where its build server could not be reached."""

RULES = Rules(num_steps=1, success_cm=100, require_visible=False, fov_degrees=100)
WANTED = Wanted(instruction_set="base", min_solution_length=5, max_solution_length=20)


def test_the_local_executable_is_checked_first(tmp_path: Path) -> None:
    with pytest.raises(EngineUnavailableError, match=r"local_executable_path='.*nothing' is not an executable"):
        NavigationWorld(engine="ai2thor", local_executable_path=tmp_path / "nothing")
    build = tmp_path / "thor"
    build.write_text("", encoding="utf-8")
    build.chmod(0o755)
    engine, _ = make_ai2thor(
        RULES, WANTED, size_px=64, max_visible=5, local_executable_path=build, scenes=None, task_file=None
    )
    assert engine.thor._options["local_executable_path"] == str(build)


def test_sets_that_need_a_task_file_say_so() -> None:
    with pytest.raises(ConfigError, match="pass a task_file of that set"):
        NavigationWorld(engine="ai2thor", instruction_set="long_horizon")


def fake_package(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Puts an `ai2thor` into place whose controller raises."""

    def controller(**options: Any) -> None:
        raise error

    for name, content in (
        ("ai2thor", {}),
        ("ai2thor.controller", {"Controller": controller}),
        ("ai2thor.platform", {"CloudRendering": object()}),
    ):
        module = types.ModuleType(name)
        module.__dict__.update(content)
        monkeypatch.setitem(sys.modules, name, module)


def test_a_missing_build_is_told_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_package(monkeypatch, ValueError(NO_BUILD))
    world = NavigationWorld(engine="ai2thor")
    with pytest.raises(EngineUnavailableError, match=r"Invalid commit_id.*no build exists.*local_executable_path"):
        world.reset(seed=0)


def test_other_failures_are_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_package(monkeypatch, ConnectionError("no network"))
    with pytest.raises(EngineUnavailableError, match="ConnectionError: no network"):
        start_controller()


def test_a_missing_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ai2thor.controller", None)
    with pytest.raises(EngineUnavailableError, match=r"pip install -e '.*\[ai2thor\]'"):
        start_controller()


def test_the_real_package_starts_or_says_why_not() -> None:
    try:
        controller = start_controller(width=64, height=64)
    except EngineUnavailableError as error:
        assert "AI2-THOR" in str(error)
    else:
        controller.stop()
