"""Settings that some servers need: how they are sent, refused, named, and kept out of records."""

import json

import numpy as np
import pytest

from tests.unit.agents.api import endpoint as fake

pytest.importorskip("openai", reason="needs openai: pip install '.[api]'")
pytest.importorskip("anthropic", reason="needs anthropic: pip install '.[api]'")
pytest.importorskip("google.genai", reason="needs google-genai: pip install '.[api]'")

from agents.registry import make_agent
from benchmarks.models.board.board_spec import AgentSpec, WorldSpec
from benchmarks.models.play.contestants import contestants
from tests.unit.agents.api.asking import respond_to
from tests.unit.agents.api.conftest import KEY
from tests.unit.agents.api.wires import WIRES, Said
from vlm_envs.errors import ConfigError

SEEN = {"text": "Look.", "image": np.zeros((2, 2, 3), np.uint8)}
SECRET = "hush-hush-value"
ALL = {
    "seed": 7,
    "stop": ["END", "STOP"],
    "top_k": 20,
    "detail": "low",
    "max_completion_tokens": True,
    "extra_body": {"provider": {"order": ["a", "b"]}},
}
REFUSED = {
    "compatible": (),
    "openai-chat": ("top_k", "max_completion_tokens"),
    "openai": ("seed", "stop", "top_k", "max_completion_tokens", "stream"),
    "anthropic": ("seed", "detail", "max_completion_tokens", "stream"),
    "google": ("detail", "max_completion_tokens", "stream"),
}
AGENT = "compatible:judge@http://127.0.0.1:9/v1"


@pytest.fixture
def agent(endpoint, monkeypatch):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, KEY)
    monkeypatch.setenv("MY_HEADER", SECRET)
    made = []

    def make_one(provider="compatible", query="", **settings):
        wire = WIRES[provider]
        url = f"http://127.0.0.1:{endpoint.server_port}{wire.version}{query}"
        for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"):
            monkeypatch.setenv(name, url)
        name = f"compatible:judge@{url}" if provider == "compatible" else f"{provider}:judge"
        made.append(make_agent(name, **{"max_attempts": 1, **settings}))
        return made[-1]

    yield make_one
    for each in made:
        each.close()


def answers(endpoint, provider, **said):
    endpoint.script.append(fake.body_of(WIRES[provider].body(Said(**said))))


@pytest.mark.parametrize("provider", sorted(WIRES))
def test_every_setting_that_a_provider_has_is_sent(provider, endpoint, agent):
    settings = {name: value for name, value in ALL.items() if name not in REFUSED[provider]}
    answers(endpoint, provider)
    assert respond_to(agent(provider, **settings), [0], [SEEN])[0].text
    (request,) = endpoint.requests
    written = json.dumps(request)
    assert request["provider"] == {"order": ["a", "b"]}
    assert "extra_body" not in written
    for name, sign in (("seed", '"seed": 7'), ("stop", '["END", "STOP"]'), ("detail", '"detail": "low"')):
        assert (sign in written) == (name in settings)
    assert ("top_k" in written or "topK" in written) == ("top_k" in settings)


@pytest.mark.parametrize(("provider", "name"), [(provider, name) for provider in REFUSED for name in REFUSED[provider]])
def test_a_setting_that_a_provider_has_not_is_refused_by_its_name(provider, name, endpoint, agent):
    with pytest.raises(ConfigError, match=f"{provider} has no setting '{name}'"):
        agent(provider, **{name: ALL.get(name, True)})
    assert not endpoint.requests


def test_the_limit_is_sent_under_either_name(endpoint, agent):
    respond_to(agent(max_tokens=99), [0], [SEEN])
    respond_to(agent(max_tokens=99, max_completion_tokens=True), [0], [SEEN])
    old, new = endpoint.requests
    assert old["max_tokens"] == 99 and "max_completion_tokens" not in old
    assert new["max_completion_tokens"] == 99 and "max_tokens" not in new


@pytest.mark.parametrize("provider", sorted(WIRES))
def test_headers_come_from_the_environment_and_enter_no_record(provider, endpoint, agent):
    answers(endpoint, provider, text=f"The value is {SECRET}.")
    endpoint.script.append(fake.status(400, f"wrong header {SECRET}"))
    player = agent(provider, headers={"X-Gateway": "$MY_HEADER"})
    (said,) = respond_to(player, [0], [SEEN])
    (refused,) = respond_to(player, [0], [SEEN])
    assert endpoint.headers[0]["X-Gateway"] == SECRET
    recorded = [said.text, str(said.raw), str(said.request), refused.error, json.dumps(player.identity)]
    assert not any(SECRET in text for text in recorded)
    assert player.identity["headers"] == ["X-Gateway"]


@pytest.mark.parametrize("provider", sorted(WIRES))
def test_each_word_of_a_header_is_hidden(provider, endpoint, agent, monkeypatch):
    monkeypatch.setenv("MY_HEADER", f"Bearer {SECRET}")
    body = {
        **WIRES[provider].body(Said(text=f"It is {SECRET}. Bearer of it.", thoughts=SECRET)),
        SECRET: {SECRET: SECRET},
    }
    endpoint.script.extend([fake.body_of(body), fake.status(400, f"wrong header {SECRET}")])
    player = agent(provider, headers={"Authorization": "MY_HEADER"})
    (said,) = respond_to(player, [0], [SEEN])
    (refused,) = respond_to(player, [0], [SEEN])
    recorded = [said.text, said.thoughts, str(said.raw), str(said.request), refused.error]
    assert not any(SECRET in text for text in recorded)
    assert said.text == "It is …. Bearer of it." and "…" in refused.error


def test_a_scheme_is_no_secret(endpoint, agent, monkeypatch):
    monkeypatch.setenv("MY_HEADER", f"Negotiate {SECRET}")
    answers(endpoint, "compatible", text=f"Negotiate {SECRET}")
    (said,) = respond_to(agent(headers={"X-Key": "MY_HEADER"}), [0], [SEEN])
    assert said.text == "…"
    answers(endpoint, "compatible", text="Negotiate.")
    assert respond_to(agent(headers={"X-Key": "MY_HEADER"}), [0], [SEEN])[0].text == "Negotiate."


def test_a_server_that_takes_its_key_from_a_header_is_sent_no_other(endpoint, agent, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    respond_to(agent(headers="api-key=MY_HEADER"), [0], [SEEN])
    assert endpoint.headers[0]["api-key"] == SECRET and "Authorization" not in endpoint.headers[0]


@pytest.mark.parametrize("headers", [f"X-Key={SECRET}", SECRET, {"X-Key": SECRET}, [f"bad name={SECRET}"]])
def test_a_value_in_place_of_its_variable_is_refused_and_not_repeated(headers, agent):
    with pytest.raises(ConfigError, match="NAME=VARIABLE") as caught:
        agent(headers=headers)
    assert SECRET not in str(caught.value)


def test_a_header_whose_variable_is_not_set_is_named(agent):
    with pytest.raises(ConfigError, match="NOT_THERE, which is not set"):
        agent(headers="X-Key=NOT_THERE")


@pytest.mark.parametrize("provider", sorted(WIRES))
def test_an_api_version_stands_behind_the_address(provider, endpoint, agent):
    answers(endpoint, provider)
    respond_to(agent(provider, query="?api-version=2024-10-21"), [0], [SEEN])
    assert endpoint.paths == [f"{WIRES[provider].path}?api-version=2024-10-21"]


@pytest.mark.parametrize("query", ["?api_key=hush", "?api-version=1&key=hush", "?api-version=hush%20"])
def test_no_other_query_may(query, agent):
    with pytest.raises(ConfigError, match="api-version") as caught:
        agent(query=query)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("seed", "x"), ("seed", True), ("top_k", 0), ("stop", [3]), ("stop", {"a": 1}), ("max_completion_tokens", 4096),
     ("extra_body", "{"), ("extra_body", "[1]"), ("stream", "yes"), ("seed", -1), ("extra_body", '{"a": NaN}'),
     ("extra_body", '{"a": 1e999}'), ("extra_body", {"a": float("nan")})],
)  # fmt: skip
def test_a_value_that_cannot_be_is_refused(setting, value, agent):
    with pytest.raises(ConfigError, match=rf"^{setting}\b"):
        agent(**{setting: value})


@pytest.mark.parametrize("provider", sorted(WIRES))
@pytest.mark.parametrize("key", ["model", "messages", "contents", "input", "stream", "max_tokens", "temperature"])
def test_extra_body_cannot_set_what_the_client_sets(key, provider, endpoint, agent):
    with pytest.raises(ConfigError, match=f"^extra_body cannot set '{key}'"):
        agent(provider, extra_body={"a": 1, key: "x"})
    assert not endpoint.requests


def test_extra_body_cannot_repeat_a_setting(agent):
    agent(extra_body={"seed": 1})
    with pytest.raises(ConfigError, match=r"cannot set 'seed': use the setting seed"):
        agent(extra_body={"seed": 1}, seed=2)


class TestIdentity:
    def test_unset_settings_and_the_address_are_no_part_of_it(self, agent):
        assert set(agent().identity) == {
            *("provider", "model", "history", "system_prompt", "temperature", "top_p", "max_tokens", "reasoning")
        }

    @pytest.mark.parametrize("name", ALL)
    def test_what_decides_a_response_is(self, name, agent):
        assert agent(**{name: ALL[name]}).identity != agent().identity

    @pytest.mark.parametrize("name", ["stream", "max_retry_s", "max_attempts"])
    def test_how_it_is_asked_is_not(self, name, agent, endpoint):
        value = {"stream": "true", "max_retry_s": "60", "max_attempts": "3"}[name]
        url = f"compatible:judge@{endpoint.base_url}"
        plain, other = (contestants([text], references=False)[0] for text in (url, f"{url},{name}={value}"))
        assert plain.digest == other.digest and plain.label == other.label
        plain.close(), other.close()

    def test_the_address_is_told_beside_it(self, agent, endpoint):
        assert agent().address == endpoint.base_url


class TestCommandLine:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ('extra_body={"a": {"enable_thinking": false}, "b": [1, 2]},seed=3',
             {"extra_body": '{"a": {"enable_thinking": false}, "b": [1, 2]}', "seed": 3}),
            ('extra_body={"say": "a, b} c"},seed=3', {"extra_body": {"say": "a, b} c"}, "seed": 3}),
            ("stop='a, b',seed=3", {"stop": "a, b", "seed": 3}),
            ("stop=['a,','b'],seed=3", {"stop": ["a,", "b"], "seed": 3}),
            ("headers=X-Key=MY_KEY,seed=3", {"headers": "X-Key=MY_KEY", "seed": 3}),
            ("system_prompt=Don't stop,seed=3", {"system_prompt": "Don't stop", "seed": 3}),
            ("system_prompt='tis,seed=3", {"system_prompt": "'tis", "seed": 3}),
            ("system_prompt=rock 'n roll,stop='a,b'", {"system_prompt": "rock 'n roll", "stop": "a,b"}),
            ("seed=3,system_prompt=:-(", {"seed": 3, "system_prompt": ":-("}),
            ("seed=3,system_prompt=Think (first, then act", {"seed": 3, "system_prompt": "Think (first, then act"}),
            ("system_prompt=':-(',seed=3", {"system_prompt": ":-(", "seed": 3}),
            ("stop='a,b=1',seed=3", {"stop": "a,b=1", "seed": 3}),
        ],
    )  # fmt: skip
    def test_values_keep_their_commas(self, text, expected):
        spec = AgentSpec.parse(f"{AGENT},{text}")
        assert spec.settings == expected and spec.name == AGENT

    @pytest.mark.parametrize(
        "text",
        [
            "system_prompt=:-(,seed=3",
            'as=e2,extra_body={"a":1',
            'extra_body={"a":[1,as=e2}',
            "stop=(,temperature=0",
            "stop=['a,temperature=0",
            "system_prompt='tis,stop='a'",
            "stop=(1,2",
        ],
    )
    def test_an_open_bracket_or_quote_takes_no_other_setting(self, text):
        with pytest.raises(ConfigError, match="not closed in") as caught:
            AgentSpec.parse(f"{AGENT},{text}")
        assert text.split(",")[-1] in str(caught.value) and "\n" not in str(caught.value)

    def test_an_open_bracket_of_a_world_is_an_error(self):
        with pytest.raises(ConfigError, match="not closed in"):
            WorldSpec.parse("VLM/Sokoban-v0:dim_room=(7,7,num_boxes=2")

    @pytest.mark.parametrize("body", ['{"a": {"b": false}}', '{"a": {"b": 1}}', "{'a': {'b': 1}}"])
    def test_a_body_is_json_or_a_dictionary(self, body, endpoint, agent):
        spec = AgentSpec.parse(f"{AGENT},extra_body={body}")
        respond_to(agent(**spec.settings), [0], [SEEN])
        assert set(endpoint.requests[0]["a"]) == {"b"}


def events(*chunks, end="data: [DONE]\n\n"):
    def answer(handler):
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.end_headers()
        for chunk in chunks:
            name = f"event: {chunk['type']}\n" if "type" in chunk else ""
            handler.wfile.write(f"{name}data: {json.dumps(chunk)}\n\n".encode())
        handler.wfile.write(end.encode())
        handler.close_connection = True

    return answer


def chunk(delta, why=None, **more):
    choice = {"index": 0, "delta": delta, "finish_reason": why}
    return {
        "id": "1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "exact-name",
        "choices": [choice],
        **more,
    }


USAGE = {"prompt_tokens": 100, "completion_tokens": 30, "total_tokens": 130}


class TestStreams:
    def test_a_stream_is_put_together(self, endpoint, agent):
        parts = [
            chunk({"role": "assistant", "content": "", "reasoning_content": "Up "}),
            chunk({"reasoning_content": "is free."}),
            chunk({"content": "<answer>"}),
            chunk({"content": "Up</answer>"}, "stop"),
            {**chunk({}), "choices": [], "usage": USAGE},
        ]
        endpoint.script.append(events(*parts))
        (said,) = respond_to(agent(stream=True), [0], [SEEN])
        assert (said.text, said.thoughts, said.model) == ("<answer>Up</answer>", "Up is free.", "exact-name")
        assert said.usage["prompt_tokens"] == 100 and "uncounted" not in said.usage
        assert endpoint.requests[0]["stream"] is True

    def test_one_that_is_cut_off_is_an_answer(self, endpoint, agent):
        endpoint.script.append(events(chunk({"role": "assistant", "content": "<answer>"}), chunk({}, "length")))
        (said,) = respond_to(agent(stream=True), [0], [SEEN])
        assert (said.text, said.stop_reason, said.usage["uncounted"]) == ("<answer>", "length", 1)

    def test_one_that_breaks_off_is_asked_for_again(self, endpoint, agent):
        endpoint.script.append(fake.stream_nobody_asked_for)
        endpoint.script.append(events(chunk({"role": "assistant", "content": "Up"}, "stop")))
        (said,) = respond_to(agent(stream=True, max_attempts=2), [0], [SEEN])
        assert said.text == "Up" and len(endpoint.requests) == 2

    def test_one_without_a_chunk_ended_early(self, endpoint, agent):
        endpoint.script.append(events())
        (said,) = respond_to(agent(stream=True, max_attempts=1), [0], [SEEN])
        assert said.stop_reason == "error" and "ended before" in said.error

    def test_one_that_ends_early_is_requested_again(self, endpoint, agent):
        endpoint.script.append(events(chunk({"role": "assistant", "content": "U"}), end=""))
        endpoint.script.append(events(chunk({"role": "assistant", "content": "Up"}, "stop"), end=""))
        (said,) = respond_to(agent(stream=True, max_attempts=2), [0], [SEEN])
        assert said.text == "Up" and len(endpoint.requests) == 2

    def test_done_replaces_a_missing_finish_reason(self, endpoint, agent):
        endpoint.script.append(events(chunk({"role": "assistant", "content": "data: Up"})))
        (said,) = respond_to(agent(stream=True), [0], [SEEN])
        assert (said.text, said.stop_reason) == ("data: Up", "stop") and len(endpoint.requests) == 1

    def test_a_response_that_contains_done_is_not_the_end_of_a_stream(self, endpoint, agent):
        endpoint.script.append(events(chunk({"role": "assistant", "content": "\ndata: [DONE]\n"}), end=""))
        (said,) = respond_to(agent(stream=True), [0], [SEEN])
        assert said.stop_reason == "error"

    def test_an_error_within_one_is_classed(self, endpoint, agent):
        busy, full = {"error": {"message": "busy"}}, {"error": {"message": "prompt is too long", "code": 400}}
        endpoint.script.extend([events(busy), events(full)])
        player = agent(stream=True)
        (first,) = respond_to(player, [0], [SEEN])
        (second,) = respond_to(player, [0], [SEEN])
        assert first.stop_reason == "error" and "busy" in first.error
        assert second.stop_reason == "context"

    def test_a_stream_has_to_be_whole_in_time(self, endpoint, agent):
        def drip(handler):
            events(chunk({"role": "assistant", "content": "U"}), end="")(handler)
            fake._drip(handler, b": wait\n")

        endpoint.script.append(drip)
        (said,) = respond_to(agent(stream=True, timeout_s=0.3), [0], [SEEN])
        assert said.stop_reason == "error" and "no whole reply" in said.error

    def test_an_endless_stream_is_broken_off(self, endpoint, agent, monkeypatch):
        from agents.api import transport

        monkeypatch.setattr(transport, "MAX_BODY_BYTES", 2_000)
        endpoint.script.append(events(*[chunk({"role": "assistant", "content": "x" * 100})] * 50))
        (said,) = respond_to(agent(stream=True), [0], [SEEN])
        assert said.stop_reason == "error" and "more than 2000 bytes" in said.error

    def test_a_key_within_one_is_hidden(self, endpoint, agent):
        endpoint.script.append(
            events(chunk({"role": "assistant", "content": KEY[:5]}), chunk({"content": KEY[5:]}, "stop"))
        )
        (said,) = respond_to(agent(stream=True), [0], [SEEN])
        assert KEY not in said.text and KEY not in json.dumps(said.raw)
