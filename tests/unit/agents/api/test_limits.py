"""A model's own limits end its episode, whichever provider reports them; every other refusal is an error."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.unit.agents.api import endpoint as fake
from tests.unit.agents.api.asking import ask, respond_to

pytest.importorskip("openai", reason="needs openai: pip install '.[api]'")
pytest.importorskip("anthropic", reason="needs anthropic: pip install '.[api]'")
pytest.importorskip("google.genai", reason="needs google-genai: pip install '.[api]'")

from agents.api.conversation import Message
from agents.api.failures import CODES, Unavailable, fits_without_response, limit_of
from agents.registry import make_agent
from agents.rollout import play_episodes, rollout
from tests.unit.agents.api.conftest import KEY
from tests.unit.agents.api.wires import WIRES
from vlm_envs.records.json_lines import to_json
from vlm_envs.records.replay import replay
from vlm_envs.records.report_mistakes import first_mistake
from vlm_envs.records.run_data import TurnNotes, episode_record
from vlm_envs.registration import make
from vlm_envs.trajectory import failure_of
from vlm_envs.vector.make_vec import world_vector

FROZEN_LAKE = "VLM/FrozenLake-v0"
UP = "<think>Up is free.</think><answer>Up</answer>"

FULL = "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens."
REFUSALS = {
    "OpenAI": (400, {"error": {"message": "too long", "code": "context_length_exceeded"}}, "context"),
    "OpenAI, by its words": (
        400,
        {"error": {"message": "Your input exceeds the context window of this model."}},
        "context",
    ),
    "Anthropic": (
        400,
        {"error": {"type": "invalid_request_error", "message": "prompt is too long: 204521 tokens > 200000"}},
        "context",
    ),
    "Anthropic, bytes": (
        413,
        {"error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}},
        "context",
    ),
    "Anthropic, with the response": (
        400,
        {"error": {"message": "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000"}},
        "context",
    ),
    "Anthropic, images": (400, {"error": {"message": "too many images and documents: 104 + 1 > 100"}}, "context"),
    "Anthropic, sides": (
        400,
        {"error": {"message": "At least one of the image dimensions exceed max allowed size: 8000 pixels"}},
        "context",
    ),
    "Gemini": (
        400,
        {
            "error": {
                "code": 400,
                "status": "INVALID_ARGUMENT",
                "message": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            }
        },
        "context",
    ),
    "vLLM": (
        400,
        {
            "object": "error",
            "message": "The decoder prompt (length 10127) is longer than the maximum model length of 8192.",
            "code": 400,
        },
        "context",
    ),
    "vLLM, images": (
        400,
        {"object": "error", "message": "At most 1 image(s) may be provided in one request.", "code": 400},
        "context",
    ),
    "SGLang": (
        400,
        {
            "object": "error",
            "message": "The input (61709 tokens) is longer than the model's context length (40960 tokens).",
        },
        "context",
    ),
    "llama.cpp": (
        400,
        {
            "error": {
                "code": 400,
                "type": "exceed_context_size_error",
                "message": "the request exceeds the available context size",
            }
        },
        "context",
    ),
    "LM Studio": (
        400,
        {
            "error": "Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded "
            "with context length of only 4096 tokens"
        },
        "context",
    ),
    "DashScope": (
        400,
        {"error": {"code": "invalid_parameter_error", "message": "Range of input length should be [1, 30720]"}},
        "context",
    ),
    "a proxy": (413, "<html><h1>413 Request Entity Too Large</h1></html>", "context"),
    "a gateway": (422, {"detail": [{"loc": ["body"], "msg": "maximum context length is 4096 tokens"}]}, "context"),
    "Azure's filter": (
        400,
        {"error": {"code": "content_filter", "message": "The response was filtered"}},
        "content_filter",
    ),
    "DashScope's filter": (
        400,
        {"error": {"code": "data_inspection_failed", "message": "Input data may contain inappropriate content."}},
        "content_filter",
    ),
    "OpenRouter": (
        400,
        {
            "error": {
                "message": "Provider returned error",
                "code": 400,
                "metadata": {"raw": json.dumps({"error": {"message": FULL}})},
            }
        },
        "context",
    ),
    "a gateway that shows text": (
        400,
        {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": FULL}}},
        "context",
    ),
    "a gateway that wraps JSON": (400, {"error": {"message": json.dumps({"error": {"message": FULL}})}}, "context"),
    "a gateway that drops the code": (400, {"error": {"message": "context_length_exceeded"}}, "context"),
    "a filter behind a gateway": (400, {"error": {"message": "content_filter"}}, "content_filter"),
    "OpenAI's filter": (
        400,
        {
            "error": {
                "code": "invalid_prompt",
                "message": "Your prompt was flagged as potentially violating our policy.",
            }
        },
        "content_filter",
    ),
    "Anthropic's filter": (400, {"error": {"message": "Output blocked by content filtering policy"}}, "content_filter"),
}

TOO_MANY = "max_tokens must be below the maximum context length of the model (8192); got 16384"
ERRORS = {
    "no vision": (400, {"error": "Model does not support images."}),
    "no vision in vLLM": (400, {"message": "At most 0 image(s) may be provided in one request."}),
    "no such parameter": (
        400,
        {"error": {"message": "Unsupported parameter: 'max_tokens'", "code": "unsupported_parameter"}},
    ),
    "a wrong key": (401, {"error": {"message": "prompt is too long", "code": "context_length_exceeded"}}),
    "nothing": (400, {}),
    "Groq, tokens per minute": (
        413,
        {
            "error": {
                "message": "Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 7500",
                "type": "tokens",
                "code": "rate_limit_exceeded",
            }
        },
    ),
    "tokens per minute without a code": (413, {"error": {"message": "Request too large: tokens per minute (TPM)"}}),
    "a flagged organization": (
        400,
        {
            "error": {
                "message": "The API key's organization was flagged as potentially violating our policy.",
                "code": "organization_flagged",
            }
        },
    ),
    "max_tokens above the context": (400, {"error": {"message": TOO_MANY, "code": "invalid_max_tokens"}}),
    "max_tokens above the context, without a code": (400, {"error": {"message": TOO_MANY}}),
}


def refusal(status, body):
    content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return lambda handler: handler.send(status, content)


@pytest.fixture
def agent(endpoint, monkeypatch):
    """Makes agents of the fake server in a provider's format."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, KEY)
    made = []

    def make_one(provider="compatible", **settings):
        wire = WIRES[provider]
        url = f"http://127.0.0.1:{endpoint.server_port}{wire.version}"
        for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"):
            monkeypatch.setenv(name, url)
        name = f"compatible:judge@{url}" if provider == "compatible" else f"{provider}:judge"
        made.append(make_agent(name, **settings))
        return made[-1]

    yield make_one
    for each in made:
        each.close()


def lake(num_envs=1):
    return world_vector(FROZEN_LAKE, num_envs, prompt_format="free_think", max_turns=3)


def observed(text="Look."):
    return {"text": text, "image": np.zeros((2, 2, 3), np.uint8)}


EVERYWHERE = ("OpenAI", "Anthropic", "Gemini", "LM Studio", "a proxy", "Azure's filter")
"""Tried with every provider's package; the others as a compatible server says them."""


@pytest.mark.parametrize(
    ("name", "provider"),
    [(name, provider) for name in REFUSALS for provider in (sorted(WIRES) if name in EVERYWHERE else ["compatible"])],
)
def test_a_limit_is_an_answer_without_text_and_asked_for_once(name, provider, endpoint, agent):
    status, body, stop = REFUSALS[name]
    endpoint.script.append(refusal(status, body))
    (response,) = respond_to(agent(provider), [0], [observed()])
    assert (response.text, response.stop_reason, response.error) == ("", stop, "")
    assert f"HTTP {status}" in response.stop_detail
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize("provider", sorted(WIRES))
@pytest.mark.parametrize(("status", "body"), ERRORS.values(), ids=ERRORS)
def test_any_other_refusal_is_an_error(status, body, provider, endpoint, agent):
    endpoint.script.append(refusal(status, body))
    (response,) = respond_to(agent(provider), [0], [observed()])
    assert response.stop_reason == "error" and f"HTTP {status}" in response.error


def test_an_error_inside_a_successful_reply_is_classed_alike(endpoint, agent):
    body = {"error": {"code": 400, "message": "This model's maximum context length is 4096 tokens."}}
    endpoint.script.append(fake.body_of(body))
    (response,) = respond_to(agent(), [0], [observed()])
    assert response.stop_reason == "context" and len(endpoint.requests) == 1


def test_a_wrapped_error_inside_a_successful_reply_is_classified_alike(endpoint, agent):
    endpoint.script.append(fake.body_of(REFUSALS["OpenRouter"][1]))
    (response,) = respond_to(agent(), [0], [observed()])
    assert response.stop_reason == "context" and response.stop_detail == FULL


def test_a_rate_limit_that_names_a_wait_is_waited_for(endpoint, agent):
    status, body = ERRORS["Groq, tokens per minute"]
    endpoint.script.append(lambda handler: handler.send(status, json.dumps(body).encode(), {"Retry-After": "0.01"}))
    (response,) = respond_to(agent(), [0], [observed()])
    assert response.stop_reason == "stop" and len(endpoint.requests) == 2


def full_after(num_turns, endpoint):
    full = refusal(400, REFUSALS["OpenAI"][1])
    endpoint.script.extend([fake.reply(UP)] * num_turns + [full] * 9)


@pytest.mark.parametrize("is_async", [True, False])
def test_a_full_context_ends_the_episode_unsolved_and_the_record_replays(is_async, endpoint, agent):
    full_after(1, endpoint)
    with lake() as worlds:
        if is_async:
            (played,) = play_episodes(agent(), worlds, [0], env_id=FROZEN_LAKE)
            episode = played.trajectory
        else:
            (episode,) = rollout(agent(), worlds, [0], env_ids=[FROZEN_LAKE])
    assert [turn.stop_reason for turn in episode.turns] == ["stop", "context"]
    assert failure_of(episode) == "" and not episode.success and episode.turns[-1].truncated
    assert len(endpoint.requests) == 2
    record = to_json(episode_record(episode, [TurnNotes()] * 2, lambda image: "name"))
    assert first_mistake({**record, "turns": record["turns"][1:]}).kind == "ran out of context"
    world = make(FROZEN_LAKE, prompt_format="free_think", max_turns=3)
    difference = replay(record, world, lambda name: b"")
    assert difference is None or difference.what.startswith("image")
    world.close()


def test_a_filter_is_the_answer_of_one_turn(endpoint, agent):
    endpoint.script.extend([refusal(400, REFUSALS["Azure's filter"][1]), fake.reply(UP)])
    with lake() as worlds:
        (episode,) = rollout(agent(), worlds, [0], env_ids=[FROZEN_LAKE])
    assert episode.turns[0].stop_reason == "content_filter" and episode.turns[1].stop_reason == "stop"
    record = to_json(episode_record(episode, [TurnNotes()] * len(episode.turns), lambda image: "name"))
    assert first_mistake({**record, "success": False}).kind == "refused"


@pytest.mark.parametrize(("name", "stop"), [("OpenAI", "context"), ("Azure's filter", "content_filter")])
def test_a_summary_meets_the_same_limits(name, stop, endpoint, agent):
    endpoint.script.extend([fake.reply(UP), refusal(*REFUSALS[name][:2]), fake.reply(UP)])
    player = agent(history="summary")
    player.begin(0)
    respond_to(player, [0], [observed()])
    (response,) = respond_to(player, [0], [observed()])
    assert response.stop_reason == (stop if stop == "context" else "stop")
    assert len(endpoint.requests) == (2 if stop == "context" else 3)


def test_images_that_a_provider_is_known_to_refuse_are_a_limit_before_anything_is_sent(endpoint, agent):
    player = agent("anthropic")
    images = tuple(np.zeros((2, 2, 3), np.uint8) for _ in range(101))
    (response,) = respond_to(player, [0], [{"text": "Look.", "images": images}])
    assert response.stop_reason == "context" and "at most 100" in response.stop_detail
    assert not endpoint.requests


ROOM = (
    "This model's maximum context length is 4096 tokens. However, you requested {total} tokens ({prompt} in the "
    "messages, {limit} in the completion). Please reduce the length of the messages or completion."
)


def test_a_first_turn_without_room_for_the_response_is_an_error_of_the_setting(endpoint, agent):
    told = ROOM.format(total=16884, prompt=500, limit=16384)
    endpoint.script.append(refusal(400, {"message": told}))
    (response,) = respond_to(agent(), [0], [observed()])
    assert response.stop_reason == "error" and "4096" in response.error


def test_a_later_turn_without_room_for_the_response_is_the_models_limit(endpoint, agent):
    endpoint.script.extend(
        [fake.reply(UP), refusal(400, {"message": ROOM.format(total=4200, prompt=3200, limit=1000)})]
    )
    player = agent(max_tokens=1000)
    respond_to(player, [0], [observed()])
    (response,) = respond_to(player, [0], [observed()])
    assert response.stop_reason == "context"


@pytest.mark.parametrize(
    ("message", "max_tokens", "expected"),
    [
        (ROOM.format(total=16884, prompt=500, limit=16384), 16384, True),
        (ROOM.format(total=61000, prompt=60000, limit=1000), 1000, False),
        (
            "'max_tokens' is too large: 16384. This model's maximum context length is 4096 tokens; the request has 116 "
            "input tokens (16384 > 4096 - 116).",
            16384,
            True,
        ),
        ("input length and `max_tokens` exceed context limit: 198000 + 8192 > 200000", 8192, True),
        ("prompt is too long: 204521 tokens > 200000 maximum", 16384, False),
        ("", 5, False),
    ],
)
def test_whether_a_prompt_fits_without_its_response(message, max_tokens, expected):
    assert fits_without_response(message, max_tokens) is expected


def test_the_documentation_lists_every_code():
    page = (Path(__file__).parents[4] / "docs" / "reference" / "agents.md").read_text()
    assert not [code for codes in CODES.values() for code in codes if f"`{code}`" not in page]


def test_a_status_that_is_no_refusal_is_no_limit():
    assert limit_of(500, ["context_length_exceeded"], "prompt is too long") is None
    assert limit_of(None, ["context_length_exceeded"], "") == "context"


def test_a_limit_of_a_judge_is_no_verdict(endpoint, client):
    endpoint.script.append(refusal(400, REFUSALS["OpenAI"][1]))
    verdict = ask(client, (Message(role="user", parts=("?",)),), str)
    assert isinstance(verdict, Unavailable) and len(endpoint.requests) == 1
