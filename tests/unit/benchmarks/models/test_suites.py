"""Suites never change unnoticed: what their worlds show is written down here, hash by hash."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.models.board.board_spec import SUITES, WorldSpec
from tests.unit.slow import quick
from vlm_envs.registration import need_of, reason_missing

PINNED = {
    ("lite", 1): ("VLM/FrozenLake-v0", "VLM/Sokoban-v0", "VLM/ZoomQA-v0"),
    ("full", 1): (
        *("VLM/FrozenLake-v0", "VLM/Sokoban-v0", "VLM/Navigation-v0", "VLM/PrimitiveSkill-v0", "VLM/SVG-v0"),
        *("VLM/ZoomQA-v0", "VLM/DocQA-v0", "VLM/RewardJudging-v0"),
    ),
}
"""A suite that changes gets another version, and a line of its own here."""

NUM_LEVELS = {"lite": 64, "full": 256}

DIGESTS = {
    "VLM/FrozenLake-v0": "370bbc21916c8b41",
    "VLM/Sokoban-v0": "55eedc94fbd7b5dd",
    "VLM/Navigation-v0": "6895f24e49e9406e",
    "VLM/PrimitiveSkill-v0": "07562a358cdd2aaa",
    "VLM/SVG-v0": "b60eb427b9661826",
    "VLM/ZoomQA-v0": "6a7b16b827d0837d",
    "VLM/DocQA-v0": "dc4d0af53a0aa443",
    "VLM/RewardJudging-v0": "7b7ae120780fa56b",
    "VLM/VideoQA-v0": "e955475e617738a9",
}
"""If one of these changes, boards of before do not compare with those of after: raise the suites' versions, too."""


def test_suites_are_what_they_were():
    assert {(suite.name, suite.version): suite.worlds for suite in SUITES.values()} == PINNED
    assert {suite.name: suite.episodes for suite in SUITES.values()} == NUM_LEVELS


@pytest.mark.parametrize("env_id", quick(DIGESTS, *(name for name in DIGESTS if name != "VLM/DocQA-v0")))
def test_worlds_show_what_they_showed(env_id):
    spec = WorldSpec.parse(env_id)
    need = need_of(env_id)
    if need is not None and (reason := reason_missing(need)):
        pytest.skip(reason)
    assert spec.digest == DIGESTS[env_id]


def test_a_suites_hash_is_of_its_version_and_of_all_that_is_played():
    lite = replace(SUITES["lite"], worlds=("VLM/FrozenLake-v0", "VLM/Sokoban-v0"))  # which are drawn at once
    specs = lite.specs()
    digest = lite.digest(specs)
    assert digest == lite.digest(lite.specs())
    assert digest != lite.digest(specs[:-1])
    assert digest != lite.digest(lite.specs("val"))
    assert lite.record(specs) == {"name": "lite", "version": 1, "digest": digest}


def test_a_worlds_hash_tells_what_an_agent_meets():
    base = WorldSpec.parse("VLM/FrozenLake-v0")
    assert base.digest == WorldSpec.parse("VLM/FrozenLake-v0:size=4").digest  # its default, spelled out
    for other in ("VLM/FrozenLake-v0:size=5", "VLM/FrozenLake-v0:is_slippery=True", "VLM/FrozenLake-v0:max_turns=2"):
        assert WorldSpec.parse(other).digest != base.digest


def test_a_reward_that_is_changed_in_the_code_changes_the_hash(monkeypatch):
    from vlm_envs.world import World

    step = World.step

    def generous(self, response):
        observation, reward, *others = step(self, response)
        return (observation, reward + 1.0, *others)

    before = WorldSpec.parse("VLM/FrozenLake-v0").digest
    monkeypatch.setattr(World, "step", generous)
    assert WorldSpec.parse("VLM/FrozenLake-v0").digest != before


def test_a_picture_or_a_later_level_that_is_changed_changes_the_hash(monkeypatch):
    from vlm_envs.worlds.frozen_lake import FrozenLakeWorld

    before = WorldSpec.parse("VLM/FrozenLake-v0").digest
    reset = FrozenLakeWorld.reset

    def inverted(self, **options):
        observation, info = reset(self, **options)
        return observation | {"image": 255 - observation["image"]}, info

    def another_third(self, *, seed=None, options=None):
        return reset(self, seed=seed if seed % 10 != 2 else seed + 1, options=options)

    for changed in (inverted, another_third):
        monkeypatch.setattr(FrozenLakeWorld, "reset", changed)
        assert WorldSpec.parse("VLM/FrozenLake-v0").digest != before
