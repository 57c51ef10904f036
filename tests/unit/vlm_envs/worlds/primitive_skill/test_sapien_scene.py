"""What is said where the engine cannot run."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from vlm_envs import make
from vlm_envs.errors import EngineUnavailableError
from vlm_envs.worlds.primitive_skill import sapien_scene
from vlm_envs.worlds.primitive_skill.sapien_engine import EngineHandle


@pytest.fixture(autouse=True)
def _untried() -> Iterator[None]:
    sapien_scene.why_unavailable.cache_clear()
    yield
    sapien_scene.why_unavailable.cache_clear()


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sapien_scene.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EngineUnavailableError, match=r"needs the package sapien\. Run: pip install"):
        sapien_scene.require_engine()


def test_a_driver_that_crashes_is_explained_and_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    trials = []

    def crash(command: list[str], **kwargs: object) -> SimpleNamespace:
        trials.append(command)
        return SimpleNamespace(returncode=-11, stdout="", stderr="Failed to find a supported physical device")

    monkeypatch.setattr(sapien_scene, "mani_skill_assets", lambda: None)
    monkeypatch.setattr(subprocess, "run", crash)
    for _ in range(2):
        with pytest.raises(EngineUnavailableError, match=r"exit status -11: Failed to find.*mesa-vulkan-drivers"):
            sapien_scene.require_engine()
    assert len(trials) == 1


def test_worlds_without_an_engine_still_make_levels_and_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: EngineHandle) -> None:
        raise AssertionError("the engine was started")

    monkeypatch.setattr(EngineHandle, "use", refuse)
    world = make("VLM/PrimitiveSkill-v0", obs_mode="text", disable_env_checker=True)
    observation, info = world.reset(seed=0)
    assert world.unwrapped.optimal_actions_left() == 4
    assert info["state_text"] in observation["text"]
