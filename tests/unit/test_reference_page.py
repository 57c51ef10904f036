"""The reference names every key that worlds really give."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from vlm_envs import make

PAGE = (Path(__file__).parents[2] / "docs/reference.md").read_text(encoding="utf-8")
SECTION = re.compile(r"## (\w+)\n(.*?)(?=\n## |\Z)", re.DOTALL)
KEYS = {name: set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) for name, text in SECTION.findall(PAGE)}


@pytest.mark.parametrize("env_id", ["VLM/FrozenLake-v0", "VLM/ZoomQA-v0"])
def test_what_a_world_gives_is_in_the_tables(env_id):
    env = make(env_id)
    observation, info = env.reset(seed=0)
    assert set(observation) <= KEYS["Observation"]
    assert set(info) == KEYS["Info"]
