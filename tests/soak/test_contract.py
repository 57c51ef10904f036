"""Worlds that are slow keep the contract with their defaults: large pictures, dozens of pages, a simulated arm."""

from __future__ import annotations

import pytest

from vlm_envs.testing.contract import check_world

ONE_TURN = "check_env requires a first step that does not truncate; this world has one turn"


@pytest.mark.parametrize("env_id", ["VLM/ZoomQA-v0", "VLM/DocQA-v0", "VLM/VideoQA-v0", "VLM/RewardJudging-v0"])
@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_worlds_that_ask(env_id: str, split: str) -> None:
    results = check_world(env_id, split=split)
    skipped = {result.skipped for result in results} - {None}
    assert skipped == {"a turn has one action"} | ({ONE_TURN} if env_id == "VLM/VideoQA-v0" else set())


def test_the_arm_in_words_and_without_thoughts() -> None:
    check_world("VLM/PrimitiveSkill-v0", prompt_format="no_think", representation="symbolic", obs_mode="text")


def test_the_arm_with_a_world_model() -> None:
    check_world("VLM/PrimitiveSkill-v0", prompt_format="worldmodeling", representation="structured")


def test_the_arm_with_a_system_message_and_a_reminder() -> None:
    check_world("VLM/PrimitiveSkill-v0", system_prompt=True, format_reminder=True)


@pytest.mark.parametrize("task", ["Place", "Stack", "Drawer", "Align"])
def test_every_task_of_the_arm(task: str) -> None:
    assert {result.skipped for result in check_world(f"VLM/PrimitiveSkill{task}-v0", split="test")} == {None}
