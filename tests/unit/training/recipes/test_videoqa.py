"""The tiny VLM takes a clip of four frames, and what an expert says of it fits into a response."""

from __future__ import annotations

from contextlib import closing

import pytest

pytest.importorskip("pydantic", reason="needs the tools: pip install '.[tools]'")

import vlm_envs
from agents.hf.hf_agent import load_encoder
from agents.hf.tiny_vlm import save_tiny
from agents.oracle import OracleAgent
from training.recipes.tiny import videoqa_tiny


def test_four_frames_are_16_visual_tokens_and_responses_fit(tmp_path):
    config = videoqa_tiny()
    (world,) = config.worlds
    save_tiny(tmp_path, env_ids=(world.env_id,), settings={world.env_id: [world.kwargs]})
    encoder = load_encoder(tmp_path)
    with closing(vlm_envs.make(world.env_id, **world.kwargs)) as made:
        for seed in range(20):
            shown, _ = made.reset(seed=seed)
            prompt = encoder.encode(shown, is_first=True)
            assert len(prompt.images) == 4 and (prompt.ids == encoder.image_token_id).sum() == 16
            said = OracleAgent().write(made.unwrapped)
            response = encoder.encode_response(said)
            assert len(response) <= config.sampling.max_new_tokens and len(prompt.ids) < 256
            assert encoder.decode(response) == said
            words = [encoder.tokenizer.decode([each]).strip() for each in response]
            (way,) = made.unwrapped.state.sample.key.answers
            assert words.count(way) >= 2, "the way is a token of its own, whatever stands around it"
