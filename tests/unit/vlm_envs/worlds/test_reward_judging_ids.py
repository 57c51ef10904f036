"""Ids of RewardJudging are the tasks of ARMBench-VL: each a track with a number of responses."""

from __future__ import annotations

import pytest

pytest.importorskip("pysbd", reason="needs pysbd: pip install '.[tools]'")

import vlm_envs
from vlm_envs.registration import VARIANTS

TABLE_6 = {
    "VLM/RewardJudgingFineGrainedPair-v0": ("fine_grained", 2),
    "VLM/RewardJudgingFineGrainedFour-v0": ("fine_grained", 4),
    "VLM/RewardJudgingDocumentSingle-v0": ("document", 1),
    "VLM/RewardJudgingDocumentPair-v0": ("document", 2),
    "VLM/RewardJudgingInstructionSingle-v0": ("instruction_following", 1),
}
SMALL = {"side_px": (400, 600), "target_px": (16, 40), "num_pages": 5}


def test_they_are_those_of_table_6():
    judging = {name for name, each in VARIANTS.items() if each.base_id == "VLM/RewardJudging-v0"}
    assert judging == TABLE_6.keys() and judging <= set(vlm_envs.env_ids())


@pytest.mark.parametrize("env_id", TABLE_6)
def test_each_asks_about_its_track_with_so_many_responses(env_id):
    track, number = TABLE_6[env_id]
    world = vlm_envs.make(env_id, **SMALL).unwrapped
    try:
        world.reset(seed=3)
        sample = world.state.sample
        assert sample.category.startswith(f"{track}_") and len(sample.texts) == number
        assert sample.key.verdicts == (("True", "False") if number == 1 else tuple(map(str, range(1, number + 1))))
    finally:
        world.close()
