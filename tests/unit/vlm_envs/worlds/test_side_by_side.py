"""Worlds of one process draw what each of them draws alone: no library of one gets in the way of another's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from vlm_envs.registration import need_of, reason_missing
from vlm_envs.splits import split_seeds

CHECKOUT = Path(__file__).parents[4]
NAVIGATION = "VLM/Navigation-v0"
OTHERS = ("VLM/DocQA-v0", "VLM/RewardJudging-v0", "VLM/SVG-v0")
"""Drawn by pdfium, by both pdfium and Pillow, and by cairo: each has a FreeType, as panda3d has."""

SMALL = {
    "VLM/DocQA-v0": {"num_pages": 5},
    "VLM/RewardJudging-v0": {"num_pages": 5, "side_px": (400, 600), "target_px": (16, 40)},
}

DRAW = """
import hashlib, json, sys
import gymnasium, vlm_envs
from vlm_envs.trajectory import observation_images

drawn = {}
for env_id, settings in json.loads(sys.argv[1]):
    world = gymnasium.make(env_id, split="test", disable_env_checker=True, **settings)
    shown = [observation_images(world.reset(seed=seed)[0]) for seed in json.loads(sys.argv[2])]
    drawn[env_id] = [hashlib.sha256(each.tobytes()).hexdigest() for pictures in shown for each in pictures]
    world.close()
print(json.dumps(drawn))
"""


def drawn(*env_ids: str) -> dict[str, list[str]]:
    """Returns hashes of what worlds draw one after another in a process of their own."""
    worlds = [(env_id, SMALL.get(env_id, {})) for env_id in env_ids]
    command = [sys.executable, "-c", DRAW, json.dumps(worlds), json.dumps(list(split_seeds("test", 2)))]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=280, check=True)
    return dict(json.loads(done.stdout))


@pytest.mark.soak
def test_homes_change_no_picture_that_is_drawn_after_them_nor_are_they_changed() -> None:
    available = [each for each in OTHERS if not (need := need_of(each)) or not reason_missing(need)]
    need = need_of(NAVIGATION)
    if not available or (need is not None and reason_missing(need)):
        pytest.skip("needs panda3d and another package that draws: pip install -e '.[navigation,tools,svg]'")
    before, after = drawn(*available, NAVIGATION), drawn(NAVIGATION, *available)
    assert len({picture for pictures in before.values() for picture in pictures}) >= 2 * len(available) + 1
    assert after == before
