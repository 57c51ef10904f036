"""The mix has the worlds of its specialists with their arguments, and its tokenizer writes what their experts say."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("pydantic", reason="needs the tools: pip install '.[tools]'")

import vlm_envs
from agents.hf.hf_agent import load_encoder
from agents.oracle import OracleAgent
from training.preflight_judges import without_judges
from training.recipes.tiny import PAID, SPECIALISTS, mix_tiny

ROOT = Path(__file__).parents[4]
CONFIG = mix_tiny()
PICTURED = [world for world in CONFIG.worlds if not world.env_id.startswith("VLM/PrimitiveSkill")]
"""PrimitiveSkill needs drivers, and its specialist's own checks are of the same arguments."""


def test_worlds_are_those_of_the_specialists_and_so_are_their_experts():
    specialists = [recipe() for recipe in SPECIALISTS]
    assert len({world.env_id for world in CONFIG.worlds}) == len(SPECIALISTS) == 9
    for world, specialist in zip(CONFIG.worlds, specialists, strict=True):
        (own,) = specialist.worlds
        paid_alike = {**own.kwargs, "format_reward": 0.0, **PAID.get(own.env_id, {})}
        shown_alike = replace(world, cold_start_weight=None, cold_start_suboptimal_rate=None)
        assert shown_alike == replace(own, kwargs=paid_alike)
        assert world.cold_start_suboptimal_rate == specialist.cold_start.suboptimal_rate
        assert CONFIG.sampling.max_new_tokens >= specialist.sampling.max_new_tokens
    assert {world.cold_start_suboptimal_rate for world in CONFIG.worlds} == {0.0, 0.3, 0.4, 0.5}


def test_nothing_is_left_out_that_its_user_gave():
    assert without_judges(CONFIG) == (CONFIG, [])


@pytest.mark.parametrize("world", PICTURED, ids=lambda world: world.env_id)
def test_one_tokenizer_writes_what_each_expert_says(world):
    encoder = load_encoder(ROOT / str(CONFIG.model))
    with closing(vlm_envs.make(world.env_id, **world.kwargs)) as made:
        for seed in range(5):
            shown, _ = made.reset(seed=seed)
            said = OracleAgent().write(made.unwrapped)
            response = encoder.encode_response(said)
            assert len(response) <= CONFIG.sampling.max_new_tokens
            assert encoder.decode(response) == said
            assert len(encoder.encode(shown, is_first=True).ids) < 1024


@pytest.mark.parametrize("world", PICTURED, ids=lambda world: world.env_id)
def test_success_earns_about_ten_in_each_world(world):
    with closing(vlm_envs.make(world.env_id, **world.kwargs)) as made:
        made.reset(seed=3)
        total, is_over = 0.0, False
        while not is_over:
            _, reward, terminated, truncated, _ = made.step(OracleAgent().write(made.unwrapped))
            total, is_over = total + reward, terminated or truncated
    assert 9.0 <= total <= 11.0, "the grids' steps cost a tenth, a box on its target earns 1"
