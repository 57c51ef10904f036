"""Tokens and time of a turn: reasoning that is counted apart, replies that are not counted, waits that are not play."""

import pytest

from tests.unit.agents.api import endpoint as fake

pytest.importorskip("openai", reason="needs openai: pip install '.[api]'")

from agents.api.conversation import with_reasoning
from agents.registry import make_agent
from benchmarks.models.play.playing import used_by
from tests.unit.agents.api.asking import respond_to
from tests.unit.agents.api.conftest import KEY
from vlm_envs.vector.make_vec import world_vector

FROZEN_LAKE = "VLM/FrozenLake-v0"
UP = "<think>Up is free.</think><answer>Up</answer>"


@pytest.fixture
def agent(endpoint, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    endpoint.answer = lambda messages: UP
    made = []

    def make(**settings):
        made.append(make_agent(f"compatible:judge@{endpoint.base_url}", **{"max_attempts": 1, **settings}))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize(
    ("prompt", "completion", "reasoning", "total", "expected"),
    [
        (1000, 50, 20, 1050, (50, 20)),  # Included, as OpenAI counts
        (1000, 50, 2048, 3098, (2098, 2048)),  # Beside, as Grok counts
        (1000, 50, 30, 1080, (80, 30)),
        (1000, 50, 2048, None, (2098, 2048)),
        (1000, 50, 0, 3098, (2098, 2048)),  # In the total only, as Gemini's compatible endpoint counts
        (1000, None, 0, 3048, (2048, 0)),  # Cut off before the first word
        (1000, 50, 0, None, (50, 0)),
        (1000, 50, 0, 1050, (50, 0)),
        (1000, 50, 0, 900, (50, 0)),
        (1000, None, 0, None, None),
        (1000, None, 0, 900, None),
    ],
)
def test_reasoning_is_paid_for_wherever_it_is_counted(prompt, completion, reasoning, total, expected):
    assert with_reasoning(prompt, completion, reasoning, total) == expected


@pytest.mark.parametrize(
    ("counts", "completion", "reasoning"),
    [
        ({"totalTokenCount": 9}, 4, 0),  # Cut off before the first word
        ({"totalTokenCount": 9, "thoughtsTokenCount": 4}, 4, 4),
        ({"totalTokenCount": 19, "toolUsePromptTokenCount": 10}, 4, 0),
        ({"totalTokenCount": 9, "candidatesTokenCount": 3, "thoughtsTokenCount": 1}, 4, 1),
        ({"totalTokenCount": 9, "candidatesTokenCount": 3}, 4, 1),
        ({"thoughtsTokenCount": 2}, 2, 2),
        ({}, 0, 0),
    ],
)
def test_gemini_counts_what_only_its_total_has(counts, completion, reasoning, endpoint, monkeypatch):
    pytest.importorskip("google.genai", reason="needs google-genai: pip install '.[api]'")
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", f"http://127.0.0.1:{endpoint.server_port}")
    candidates = [{"content": {"role": "model", "parts": []}, "finishReason": "MAX_TOKENS"}]
    body = {"candidates": candidates, "usageMetadata": {"promptTokenCount": 5, **counts}}
    endpoint.script.append(fake.body_of(body))
    player = make_agent("google:judge", max_attempts=1)
    (response,) = respond_to(player, [0], [{"text": "Look."}])
    player.close()
    assert response.stop_reason == "length"
    assert (response.usage["completion_tokens"], response.usage["reasoning_tokens"]) == (completion, reasoning)


def counted(**usage):
    return fake.body_of({**fake.completion(UP), "usage": usage or None})


def test_a_turn_costs_its_reasoning(endpoint, agent, prices_of):
    details = {"reasoning_tokens": 2048}
    endpoint.script.append(
        counted(prompt_tokens=1000, completion_tokens=50, total_tokens=3098, completion_tokens_details=details)
    )
    (response,) = respond_to(agent(prices=prices_of(0.0, 10.0)), [0], [{"text": "Look."}])
    assert response.usage["completion_tokens"] == 2098 and response.usage["usd"] == pytest.approx(2098e-5)


def test_a_reply_without_counts_is_estimated_by_the_mean_of_others(endpoint, agent, prices_of):
    endpoint.script.extend([counted(prompt_tokens=100, completion_tokens=10)] * 2)
    endpoint.script.extend([counted(prompt_tokens=400, completion_tokens=40), counted()])
    player = agent(prices=prices_of(1.0, 1.0))
    for _ in range(3):
        (response,) = respond_to(player, [0], [{"text": "Look."}])
        assert "uncounted" not in response.usage
    (response,) = respond_to(player, [0], [{"text": "Look."}])
    assert (response.usage["prompt_tokens"], response.usage["completion_tokens"]) == (200, 20)
    assert response.usage["uncounted"] == 1 and response.usage["usd"] == pytest.approx(220e-6)


def test_a_first_reply_without_counts_is_estimated_by_its_length(endpoint, agent):
    endpoint.script.append(counted())
    (response,) = respond_to(agent(), [0], [{"text": "x" * 4000}])
    assert response.usage["prompt_tokens"] == pytest.approx(1000, rel=0.1)
    assert response.usage["completion_tokens"] == pytest.approx(len(UP) / 4, rel=0.3)
    assert response.usage["uncounted"] == 1


def test_an_episode_with_an_uncounted_reply_keeps_its_cost(endpoint, agent, prices_of):
    from agents.rollout import rollout

    endpoint.script.extend([counted(prompt_tokens=100, completion_tokens=10), counted()])
    with world_vector(FROZEN_LAKE, 1, prompt_format="free_think", max_turns=2) as worlds:
        (episode,) = rollout(agent(prices=prices_of(1.0)), worlds, [0], env_ids=[FROZEN_LAKE])
    used = used_by(episode)
    assert used["uncounted"] == 1 and used["usd"] == pytest.approx(200e-6) and used["tokens"] == 220


def test_seconds_are_those_of_the_reply_and_not_of_the_queue(endpoint, agent):
    endpoint.answer = lambda messages: endpoint.released.wait(0.1) or UP
    responses = respond_to(agent(max_parallel=1), range(6), [{"text": "Look."}] * 6)
    assert all(0.1 <= response.usage["seconds"] < 0.35 for response in responses)


def test_more_requests_than_a_default_pool_holds_are_under_way_at_once(agent):
    import threading

    from agents.registry import make_agent

    together = threading.Barrier(130)
    with fake.Gathering(together) as server:
        server.answer = lambda messages: UP
        player = make_agent(f"compatible:judge@{server.base_url}", max_parallel=130, max_attempts=1)
        responses = respond_to(player, range(130), [{"text": "Look."}] * 130)
        player.close()
    assert {response.text for response in responses} == {UP} and not together.broken
