"""What each provider has in its own way: refusals, prompt caches, waits told in a body, answers that are none."""

import json

import httpx2
import numpy as np
import pytest

from tests.unit.agents.api import endpoint as fake
from tests.unit.agents.api.asking import complete

pytest.importorskip("openai", reason="needs openai: pip install '.[api]'")
pytest.importorskip("anthropic", reason="needs anthropic: pip install '.[api]'")
pytest.importorskip("google.genai", reason="needs google-genai: pip install '.[api]'")

from agents.api.client import ModelClient
from agents.api.conversation import Message, Picture
from agents.api.endpoint_config import EndpointConfig
from agents.api.history import Exchange, FullHistory, LastTurns
from agents.api.provider import Connection
from agents.api.transport import make_provider
from tests.unit.agents.api.wires import WIRES, Said
from vlm_envs.errors import ConfigError

PICTURE = Picture.of(np.zeros((6, 5, 3), np.uint8))
QUESTION = (Message(role="user", parts=("Go.",)),)
PAST = [
    Exchange(
        shown=Message(role="user", parts=(PICTURE, f"shown {turn}")),
        said=Message(role="assistant", parts=(f"said {turn}",)),
    )
    for turn in range(3)
]
NOW = Message(role="user", parts=(PICTURE, "shown 3"))


@pytest.fixture
def client_of(endpoint, clock):
    """Makes a client of the fake server in a provider's format."""
    made = []

    def make(provider, **changes):
        url = f"http://127.0.0.1:{endpoint.server_port}{WIRES[provider].version}"
        settings = {"model": "judge", "base_url": url, "api_key_variable": "JUDGE_KEY", "temperature": None, **changes}
        made.append(ModelClient(EndpointConfig(provider=provider, **settings), clock=clock))
        return made[-1]

    yield make
    for each in made:
        each.close()


def body(provider, **said):
    return WIRES[provider].body(Said(**said))


def request(provider, messages, **sampling):
    connection = Connection(api_key="k", base_url="http://127.0.0.1:9", timeout_s=1.0, http=httpx2.AsyncClient())
    config = EndpointConfig(model="m", provider=provider, base_url=connection.base_url, **sampling)
    return make_provider(provider, connection).request(tuple(messages), config)


def refusals():
    chat = body("openai-chat", text=None)
    chat["choices"][0]["message"]["refusal"] = "I will not."
    responses = body("openai")
    responses["output"][-1]["content"] = [{"type": "refusal", "refusal": "I will not."}]
    messages = body("anthropic", stop="content_filter", text="I will not.")
    candidate = body("google", stop="content_filter", text="I will not.")
    return {"openai-chat": chat, "compatible": chat, "openai": responses, "anthropic": messages, "google": candidate}


@pytest.mark.parametrize("provider", sorted(WIRES))
def test_a_refusal_is_an_answer_and_asked_for_once(provider, endpoint, client_of):
    endpoint.script.append(fake.body_of(refusals()[provider]))
    completion = complete(client_of(provider), QUESTION)
    assert (completion.stop_reason, completion.text) == ("content_filter", "I will not.")
    assert len(endpoint.requests) == 1


def test_a_prompt_that_is_blocked_is_a_refusal(endpoint, client_of):
    blocked = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 7}}
    endpoint.script.append(fake.body_of(blocked))
    completion = complete(client_of("google"), QUESTION)
    assert (completion.stop_reason, completion.text, completion.tokens.prompt) == ("content_filter", "", 7)


def chat_choice(why, content):
    return {"choices": [{"index": 0, "finish_reason": why, "message": {"role": "assistant", "content": content}}]}


NO_ANSWERS = {
    "openai, nothing said": ("openai", {"output": []}),
    "openai, not over": ("openai", {"status": "in_progress", "output": []}),
    "openai, cancelled": ("openai", {"status": "cancelled"}),
    "openai, failed": ("openai", {"status": "failed", "error": {"code": "server_error", "message": "m"}}),
    "chat, nothing in it": ("openai-chat", {"choices": [{"index": 0, "message": {"role": "assistant"}}]}),
    "chat, failed": ("openai-chat", chat_choice("error", "")),
    "chat, given up": ("compatible", chat_choice("abort", "<answer>Do")),
    "chat, unknown end of nothing": ("compatible", chat_choice("overloaded", "")),
    "chat, no message": ("openai-chat", {"choices": [{"index": 0, "finish_reason": "stop", "message": None}]}),
    "gemini, nothing in it": ("google", {"candidates": [{}]}),
    "gemini, answered badly": ("google", {"candidates": [{"finishReason": "MALFORMED_RESPONSE"}]}),
}


@pytest.mark.parametrize(("provider", "part"), NO_ANSWERS.values(), ids=NO_ANSWERS)
def test_what_is_no_answer_is_never_taken_for_one(provider, part, endpoint, client_of):
    endpoint.script.append(fake.body_of(body(provider) | part))
    endpoint.script.append(fake.body_of(body(provider)))
    assert complete(client_of(provider), QUESTION).text == "<answer>Up</answer>"


@pytest.mark.parametrize(
    ("why", "stop"), [("stop", "stop"), ("eos_token", "stop"), ("model_length", "length"), ("a new word", "stop")]
)
def test_an_answer_ends_in_many_servers_words(why, stop, endpoint, client_of):
    endpoint.script.append(fake.body_of(body("compatible") | chat_choice(why, "Up" if why == "a new word" else "")))
    assert complete(client_of("compatible"), QUESTION).stop_reason == stop
    assert len(endpoint.requests) == 1


def test_a_content_of_parts_is_text_and_thoughts(endpoint, client_of):
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Up is free."}]}
    parts = [thinking, {"type": "text", "text": "<answer>"}, {"type": "text", "text": "Up</answer>"}]
    endpoint.script.append(fake.body_of(body("compatible") | chat_choice("stop", parts)))
    completion = complete(client_of("compatible"), QUESTION)
    assert (completion.text, completion.thoughts) == ("<answer>Up</answer>", "Up is free.")


def test_an_answer_that_ended_before_it_began_is_one(endpoint, client_of):
    """All tokens went into thoughts."""
    cut = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "output": []}
    endpoint.script.append(fake.body_of(body("openai") | cut))
    completion = complete(client_of("openai"), QUESTION)
    assert (completion.text, completion.stop_reason) == ("", "length")


@pytest.mark.parametrize("delay", ["17s", "17.0s"])
def test_geminis_wait_stands_in_the_body(delay, endpoint, client_of, clock):
    told = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}]
    error = {"error": {"code": 429, "message": "Quota", "status": "RESOURCE_EXHAUSTED", "details": told}}
    endpoint.script.append(lambda handler: handler.send(429, json.dumps(error).encode()))
    endpoint.script.append(fake.body_of(body("google")))
    complete(client_of("google"), QUESTION)
    assert max(clock.slept) == pytest.approx(17)


class TestPromptCaches:
    def marks(self, messages):
        """Returns the texts and words at which a prompt is marked for Anthropic's cache."""
        asked = request("anthropic", messages)
        blocks = [block for message in asked["messages"] for block in message["content"]]
        return [block.get("text") for block in blocks if "cache_control" in block]

    def test_anthropic_keeps_what_comes_again(self):
        # The newest observation, and where the last request left off, lest more than 20 blocks lie between the two
        assert self.marks(FullHistory().messages(PAST, NOW)) == ["shown 2", "shown 3"]
        assert self.marks(FullHistory().messages([], NOW)) == ["shown 3"]

    def test_anthropic_keeps_nothing_that_does_not_come_again(self):
        """Writing to the cache costs more than sending."""
        assert self.marks(LastTurns(2).messages(PAST, NOW)) == []
        assert self.marks(QUESTION) == []

    def test_an_episode_has_one_key_at_openai(self):
        system = Message(role="system", parts=("You play.",))
        for provider in ("openai", "openai-chat"):
            turns = [
                request(provider, (system, *FullHistory().messages(PAST[:n], NOW if n else PAST[0].shown)))
                for n in range(3)
            ]
            assert len({turn["prompt_cache_key"] for turn in turns}) == 1
            other = request(provider, (system, *FullHistory().messages([], NOW)))
            assert other["prompt_cache_key"] != turns[0]["prompt_cache_key"]
            assert "prompt_cache_key" not in request(provider, QUESTION)
        assert "prompt_cache_key" not in request("compatible", FullHistory().messages(PAST, NOW))

    @pytest.mark.parametrize(
        ("provider", "details", "usage"),
        [("openai", "input_tokens_details", "usage"), ("openai-chat", "prompt_tokens_details", "usage")],
    )
    def test_what_openai_writes_to_its_cache_is_counted(self, provider, details, usage, endpoint, client_of):
        answer = body(provider)
        answer[usage][details]["cache_write_tokens"] = 25
        endpoint.script.append(fake.body_of(answer))
        assert complete(client_of(provider), QUESTION).tokens.cache_writes == 25


@pytest.mark.parametrize(
    ("provider", "reasoning"), [("openai", "2048"), ("openai-chat", "hgih"), ("anthropic", "9"), ("google", "much")]
)
def test_reasoning_that_a_provider_has_not_is_an_error_before_any_request(provider, reasoning, client_of):
    with pytest.raises(ConfigError, match="reasoning"):
        client_of(provider, reasoning=reasoning)
