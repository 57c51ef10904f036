"""Episodes record what was sent and what came back: summaries, the first request, raw replies."""

import json

import numpy as np
import pytest

from tests.unit.agents.api import endpoint as fake

pytest.importorskip("openai", reason="needs openai: pip install '.[api]'")

from agents.api.api_agent import MAX_RECORD_CHARS, recorded_reply
from agents.registry import make_agent
from agents.rollout import rollout
from tests.unit.agents.api.conftest import KEY
from vlm_envs.records.json_lines import to_json
from vlm_envs.records.replay import replay
from vlm_envs.records.run_data import ImageStore, TurnNotes, episode_record
from vlm_envs.registration import make
from vlm_envs.vector.make_vec import world_vector

FROZEN_LAKE = "VLM/FrozenLake-v0"
UP = "<think>Up is free.</think><answer>Up</answer>"
SUMMARY = "SECRET-SUMMARY: I went up once."


@pytest.fixture
def record_of(endpoint, monkeypatch, tmp_path):
    """Plays an episode and returns its record."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)

    def play(**settings):
        player = make_agent(f"compatible:judge@{endpoint.base_url}", max_attempts=1, **settings)
        with world_vector(FROZEN_LAKE, 1, prompt_format="free_think", max_turns=3, system_prompt=True) as worlds:
            (episode,) = rollout(player, worlds, [0], env_ids=[FROZEN_LAKE])
        player.close()
        return to_json(episode_record(episode, [TurnNotes()] * len(episode.turns), ImageStore(tmp_path).save))

    endpoint.answer = lambda messages: SUMMARY if "Sum up" in json.dumps(messages) else UP
    return play


def test_a_summary_is_recorded_on_the_turn_before_which_it_was_made(record_of):
    first, second, *_ = record_of(history="summary")["turns"]
    assert "summary" not in first and second["summary"] == SUMMARY


def test_the_first_request_is_recorded_once_as_it_was_sent(record_of, endpoint):
    record = record_of(system_prompt="You play.", temperature=0.5)
    first, *others = record["turns"]
    request = first["request"]
    assert not any("request" in turn for turn in others)
    assert (request["model"], request["temperature"]) == ("judge", 0.5)
    system, shown = request["messages"]
    assert system["content"].startswith("You play.")
    image, text = shown["content"]
    assert image["image_url"]["url"] == f"image {first['images'][0]}"
    assert text["text"] == first["text"] == endpoint.requests[0]["messages"][1]["content"][1]["text"]


def test_a_first_request_that_fails_is_recorded_too(record_of, endpoint):
    endpoint.script.append(fake.status(404))
    (turn,) = record_of()["turns"]
    assert turn["request"]["model"] == "judge" and "raw" not in turn


def test_raw_replies_are_recorded_without_the_key(record_of, endpoint):
    endpoint.answer = lambda messages: f"<think>{KEY}</think><answer>Up</answer>"
    for turn in record_of()["turns"]:
        assert turn["raw"]["choices"][0]["finish_reason"] == "stop"
        assert turn["raw"]["usage"] == {"prompt_tokens": 100, "completion_tokens": 10}
        assert KEY not in json.dumps(turn)


def test_what_is_recorded_does_not_change_the_replay(record_of, tmp_path):
    record = record_of(history="summary")
    world = make(FROZEN_LAKE, prompt_format="free_think", max_turns=3, system_prompt=True)
    assert replay(record, world, ImageStore(tmp_path).load) is None
    world.close()


def test_a_record_of_a_reply_is_short_and_repeats_nothing():
    text, thoughts = "a" * 300, "b" * 300
    body = {"text": text, "thoughts": thoughts, "signature": "s" * 10**6, "nothing": None, "n": 3}
    recorded = recorded_reply(body, text, thoughts, lambda said: said)
    assert (recorded["text"], recorded["thoughts"], recorded["n"]) == ("[response]", "[thoughts]", 3)
    assert len(json.dumps(recorded)) < 3_000 and "nothing" not in recorded
    many = {str(number): "x" * 1000 for number in range(1000)}
    assert len(json.dumps(recorded_reply(many, "", "", str))) < 1.2 * MAX_RECORD_CHARS


def test_agents_without_a_provider_record_nothing_of_it(tmp_path):
    with world_vector(FROZEN_LAKE, 1, max_turns=2) as worlds:
        (episode,) = rollout(make_agent("random"), worlds, [0], env_ids=[FROZEN_LAKE])
    record = episode_record(episode, [TurnNotes()] * len(episode.turns), lambda image: str(np.sum(image)))
    assert not {"summary", "request", "raw", "stop_detail"} & {*record["turns"][0]}
