"""Worlds with tools, played through an API: calls and what they return are text and pictures of further turns."""

import pytest

from tests.unit.agents.api import endpoint as fake

pytest.importorskip("openai", reason="needs openai: pip install '.[api]'")

from agents.oracle import OracleAgent
from agents.registry import make_agent
from agents.rollout import rollout
from tests.unit.agents.api.conftest import KEY
from vlm_envs.trajectory import observation_images
from vlm_envs.vector.make_vec import world_vector

WORLDS = {
    "VLM/ZoomQA-v0": {"prompt_format": "mags", "side_px": 336, "target_px": (16, 40), "max_pixels": 112 * 112},
    "VLM/DocQA-v0": {},
}
SEED = 3


@pytest.mark.parametrize("env_id", sorted(WORLDS))
def test_a_model_that_says_what_the_oracle_says_sees_and_earns_what_it_does(env_id, endpoint, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with world_vector(env_id, 1, **WORLDS[env_id]) as worlds:
        (expected,) = rollout(OracleAgent(), worlds, [SEED], env_ids=[env_id])
        endpoint.script.extend(fake.reply(turn.response_text) for turn in expected.turns)
        agent = make_agent(f"compatible:judge@{endpoint.base_url}", max_attempts=1)
        (episode,) = rollout(agent, worlds, [SEED], env_ids=[env_id])
        agent.close()
    assert len(expected.turns) > 1, "without a tool call this shows nothing"
    assert episode.success and episode.total_reward == expected.total_reward
    assert [turn.info["state_hash"] for turn in episode.turns] == [turn.info["state_hash"] for turn in expected.turns]
    # Each turn's request holds all pictures up to it, crops and pages that tools returned included
    num_shown = 0
    for turn, request in zip(episode.turns, endpoint.requests, strict=True):
        num_shown += len(observation_images(turn.observation))
        parts = [part for message in request["messages"] for part in message["content"] if isinstance(part, dict)]
        assert sum(part["type"] == "image_url" for part in parts) == num_shown
        assert turn.observation["text"] in str(request["messages"][-1]["content"]) or "\n" in turn.observation["text"]
    assert num_shown > 1
