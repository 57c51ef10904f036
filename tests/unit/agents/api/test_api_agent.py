"""Models behind an API as agents: whole episodes against a server on loopback."""

import json
import os
import re
import signal
import threading

import numpy as np
import pytest

from tests.unit.agents.api import endpoint as fake

pytest.importorskip("openai", reason="needs openai: pip install '.[api]'")

from agents.__main__ import main
from agents.registry import NamedAgent, make_agent, setting_names
from agents.rollout import play_episodes, rollout
from tests.unit.agents.api.asking import respond_to
from tests.unit.agents.api.conftest import KEY
from vlm_envs.errors import ConfigError
from vlm_envs.trajectory import failure_of
from vlm_envs.vector.make_vec import world_vector

FROZEN_LAKE = "VLM/FrozenLake-v0"
UP = "<think>Up is free.</think><answer>Up</answer>"


@pytest.fixture
def agent(endpoint, monkeypatch):
    """Makes agents of the fake server."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    made = []

    def make(**settings):
        made.append(make_agent(f"compatible:judge@{endpoint.base_url}", **{"max_attempts": 1, **settings}))
        return made[-1]

    endpoint.answer = lambda messages: UP
    yield make
    for each in made:
        each.close()


def lake(num_envs=1, **kwargs):
    return world_vector(FROZEN_LAKE, num_envs, prompt_format="free_think", max_turns=2, **kwargs)


def test_an_episode_is_a_conversation_with_a_picture_every_turn(endpoint, agent):
    with lake() as worlds:
        (episode,) = rollout(agent(system_prompt="You play.", temperature=0), worlds, [0], env_ids=[FROZEN_LAKE])
    assert [turn.response_text for turn in episode.turns] == [UP] * len(episode.turns)
    last = endpoint.requests[-1]["messages"]
    assert [message["role"] for message in last] == ["system", "user", "assistant", "user"][: len(last)]
    assert all([part["type"] for part in m["content"]] == ["image_url", "text"] for m in last if m["role"] == "user")
    assert endpoint.requests[-1]["temperature"] == 0
    first = episode.turns[0]
    assert first.usage["prompt_tokens"] == 100 and first.usage["seconds"] > 0 and "usd" not in first.usage
    assert {turn.model for turn in episode.turns} == {"small-2026-11-22"}


@pytest.mark.parametrize("history", ["full", "last_turns:1", "summary"])
def test_a_worlds_system_message_is_the_one_of_every_request(endpoint, agent, history):
    with lake(2, system_prompt=True) as worlds:
        episodes = rollout(agent(system_prompt="You play.", history=history), worlds, [0, 1], env_ids=[FROZEN_LAKE] * 2)
    systems = {episode.turns[0].observation["system"] for episode in episodes}
    assert len(systems) == 1 and max(len(episode.turns) for episode in episodes) == 2
    for request in endpoint.requests:
        said = [message["content"] for message in request["messages"] if message["role"] == "system"]
        assert len(said) == 1 and request["messages"][0]["role"] == "system"
        text = said[0] if isinstance(said[0], str) else said[0][0]["text"]
        assert text == f"You play.\n\n{next(iter(systems))}"


def test_each_row_has_a_conversation_of_its_own(endpoint, agent):
    with lake(3) as worlds:
        rollout(agent(), worlds, [0, 1, 2], env_ids=[FROZEN_LAKE] * 3)
    begun = [request for request in endpoint.requests if len(request["messages"]) == 1]
    assert len(begun) == 3
    for request in endpoint.requests:
        if len(request["messages"]) == 3:
            assert request["messages"][:1] in [first["messages"] for first in begun]


def test_a_history_policy_is_obeyed_and_part_of_the_identity(endpoint, agent):
    player = agent(history="last_turns:1")
    with lake() as worlds:
        rollout(player, worlds, [0], env_ids=[FROZEN_LAKE])
    assert {len(request["messages"]) for request in endpoint.requests} == {1}
    assert player.identity["history"] == "last_turns:1"
    assert player.identity != agent().identity
    assert KEY not in json.dumps(player.identity)


def test_a_summary_is_a_request_of_its_own_and_counted(endpoint, agent):
    with lake() as worlds:
        (episode,) = rollout(agent(history="summary"), worlds, [0], env_ids=[FROZEN_LAKE])
    if len(episode.turns) > 1:
        assert len(endpoint.requests) == 2 * len(episode.turns) - 1
        assert episode.turns[1].usage["prompt_tokens"] == 200


def test_a_provider_that_fails_ends_the_episode_as_lost(endpoint, agent):
    endpoint.script.extend([fake.reply(UP), fake.status(500), fake.status(500)])
    with lake() as worlds:
        (episode,) = rollout(agent(), worlds, [0], env_ids=[FROZEN_LAKE])
    assert "HTTP 500" in failure_of(episode)
    assert (episode.turns[-1].stop_reason, episode.turns[-1].reward) == ("error", 0.0)
    assert len(episode.turns) == 2 and not episode.success


def test_what_a_failed_turn_used_is_nothing_rather_than_unknown(endpoint, agent, prices_of):
    """Else what the turns before it cost would be forgotten with it."""
    endpoint.script.extend([fake.reply(UP), fake.status(500)])
    with lake() as worlds:
        (episode,) = rollout(agent(prices=prices_of(10.0)), worlds, [0], env_ids=[FROZEN_LAKE])
    assert [turn.usage["usd"] for turn in episode.turns] == [pytest.approx(1e-3), 0.0]
    assert [turn.usage["prompt_tokens"] for turn in episode.turns] == [100, 0]


def test_replies_that_cannot_be_read_are_part_of_what_a_turn_used(endpoint, agent, prices_of):
    nothing = fake.body_of({**fake.completion(""), "choices": []})
    endpoint.script.extend([nothing, fake.reply(UP), nothing, nothing])
    with lake() as worlds:
        (episode,) = rollout(agent(prices=prices_of(10.0), max_attempts=2), worlds, [0], env_ids=[FROZEN_LAKE])
    assert [turn.usage["usd"] for turn in episode.turns] == [pytest.approx(2e-3), pytest.approx(2e-3)]
    assert [turn.usage["completion_tokens"] for turn in episode.turns] == [20, 20]


@pytest.mark.parametrize("blank", ["", " \n"])
def test_no_part_of_a_request_is_blank(blank, endpoint, agent):
    """Some providers refuse a conversation with one."""
    endpoint.script.extend([fake.reply(blank)] * 2)
    player = agent()
    player.begin(0)
    for text in ("Look.", blank):
        respond_to(player, [0], [{"text": text, "image": np.zeros((2, 2, 3), np.uint8)}])
    parts = [part for message in endpoint.requests[-1]["messages"] for part in message["content"]]
    texts = [part["text"] if isinstance(part, dict) else part for part in parts if "image_url" not in part]
    assert texts and "".join(texts).strip()
    assert all(part["text"].strip() for part in parts if isinstance(part, dict) and part["type"] == "text")
    said = [m["content"] for m in endpoint.requests[-1]["messages"] if m["role"] == "assistant"]
    assert said == ["(no text)"]


def test_as_many_episodes_as_requests_are_under_way(agent):
    assert agent(max_parallel=3).num_parallel == 3


def test_the_provider_stands_in_the_name_and_is_no_setting(agent):
    assert "provider" not in setting_names("openai")
    with pytest.raises(ConfigError, match="no setting 'provider'"):
        agent(provider="anthropic")


def test_a_wait_of_minutes_is_obeyed_when_nobody_sits_and_waits(agent):
    assert agent().config.max_wait_s >= 120


def test_a_server_that_moves_stays_the_same_agent(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    there = make_agent("openai:gpt-4.1")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    elsewhere = make_agent("openai:gpt-4.1")
    assert there.identity == elsewhere.identity
    assert (there.address, elsewhere.address) == ("", "http://127.0.0.1:9/v1")
    there.close(), elsewhere.close()


def test_a_model_may_have_an_at_sign_in_its_name(agent, endpoint, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    player = make_agent(f"compatible:qwen@v2@{endpoint.base_url}", max_attempts=1)
    respond_to(player, [0], [{"text": "Look."}])
    assert endpoint.requests[-1]["model"] == "qwen@v2"
    player.close()


def test_a_local_server_needs_no_key(endpoint, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    player = make_agent(f"compatible:judge@{endpoint.base_url}", max_attempts=1)
    assert respond_to(player, [0], [{"text": "Look."}])[0].error == ""
    player.close()
    with pytest.raises(ConfigError, match="OPENAI_API_KEY, which is not set"):
        make_agent("compatible:judge@https://models.example.com/v1")
    with pytest.raises(ConfigError, match="MY_KEY, which is not set"):
        make_agent(f"compatible:judge@{endpoint.base_url}", api_key_variable="MY_KEY")


def test_a_local_server_by_the_environments_address_is_asked_without_a_key_as_the_error_says(endpoint, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
    with pytest.raises(ConfigError) as caught:
        make_agent("openai-chat:judge")
    said = re.search(r"\bapi_key_variable=\S*", str(caught.value))
    assert said is not None
    named = NamedAgent.parse(f"openai-chat:judge,{said[0]},max_attempts=1", option="--agent")
    player = make_agent(named.name, **named.settings)
    assert respond_to(player, [0], [{"text": "Look."}])[0].error == ""
    player.close()


@pytest.mark.parametrize("key", ["schlüssel-42", "two keys", "two\nkeys"])
def test_a_key_that_is_none_is_refused_and_not_repeated(key, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(ConfigError, match="OPENAI_API_KEY has characters") as caught:
        make_agent("openai:gpt-4.1")
    assert key[:5] not in str(caught.value)


def test_an_address_of_the_environment_has_to_be_one(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", "127.0.0.1:8000/v1")
    with pytest.raises(ConfigError, match="OPENAI_BASE_URL must be"):
        make_agent("openai:gpt-4.1")


def test_what_local_servers_take_for_a_key_is_cut_out_of_no_word(endpoint, agent, monkeypatch):
    monkeypatch.setenv("LOCAL_KEY", "none")
    player = agent(api_key_variable="LOCAL_KEY")
    endpoint.script.extend([fake.status(400, "none of these models is here"), fake.reply("There are none.")])
    assert "none of these" in respond_to(player, [0], [{"text": "Look."}])[0].error
    assert respond_to(player, [0], [{"text": "Look."}])[0].text == "There are none."


@pytest.mark.parametrize(
    "address",
    ["http://me:hush-hush@127.0.0.1:9/v1", "http://127.0.0.1:9/v1?api_key=hush", "http://127.0.0.1:9/v1#key=hush"],
)
def test_a_key_in_an_address_is_refused_and_not_repeated(address, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with pytest.raises(ConfigError, match="environment variable") as caught:
        make_agent(f"compatible:judge@{address}")
    assert "hush" not in str(caught.value)
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    with pytest.raises(ConfigError, match="OPENAI_BASE_URL") as caught:
        make_agent("openai:gpt-4.1")
    assert "hush" not in str(caught.value)


def test_a_key_in_place_of_its_variables_name_is_refused_and_not_repeated(agent, monkeypatch):
    with pytest.raises(ConfigError, match=r"api_key_variable.*MY_KEY") as caught:
        agent(api_key_variable="sk-hush-hush")
    assert "hush" not in str(caught.value)
    monkeypatch.setenv("my_key", KEY)
    assert agent(api_key_variable="my_key").config.api_key_variable == "my_key"


def test_ctrl_c_does_not_wait_for_a_server_that_hangs(endpoint, agent, monkeypatch):
    """Python waits for threads that are no daemons before it ends; they must not wait for a reply, nor try again."""
    threads = threading.enumerate()
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)  # Some suites inherit it ignored
    try:
        endpoint.script.extend([fake.hang] * 9)
        endpoint.on_request = lambda: os.kill(os.getpid(), signal.SIGINT)
        player = agent(max_attempts=9, timeout_s=30)
        with pytest.raises(KeyboardInterrupt):
            respond_to(player, [0], [{"text": "Look."}])
    finally:
        signal.signal(signal.SIGINT, previous)
    started = [thread for thread in threading.enumerate() if thread not in threads and not thread.daemon]
    assert all(thread.name.startswith("asyncio") for thread in started), "those only look up addresses"
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize(("price", "told"), [(10.0, ", 0.0030 USD."), (None, ".")])
def test_what_it_used_is_told_when_it_plays(price, told, endpoint, prices_of, monkeypatch, capsys):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    endpoint.script.extend([fake.reply(UP)] * 2 + [fake.reply("<answer>Up</answer>"), fake.status(400, "too long")])
    asked = [] if price is None else ["--agent-set", f"prices={prices_of(price)}"]
    words = [f"compatible:judge@{endpoint.base_url}", FROZEN_LAKE, "--set", "prompt_format=free_think"]
    assert main(["play", *words, *asked, "--max-turns", "2", "--episodes", "2", "--colors", "none"]) == 0
    said = capsys.readouterr().out
    assert f"Used 200 tokens sent, 20 received{', 0.0020 USD' if price else ''}.\n" in said
    assert f"solved 0 of 1. 1 failed. Used 300 tokens sent, 30 received{told}\n" in said
    assert "Problem: no response: HTTP 400" in said and "too long" in said


def test_a_game_without_any_response_fails(endpoint, monkeypatch, capsys):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    endpoint.script.extend([fake.status(401, "wrong key")] * 2)
    words = [f"compatible:judge@{endpoint.base_url}", FROZEN_LAKE, "--episodes", "2", "--colors", "none"]
    assert main(["play", *words]) == 1
    said = capsys.readouterr().out
    assert "Failed (HTTP 401: wrong key): 1 turn" in said and "2 failed." in said
    assert "Not solved" not in said


def test_a_limit_of_the_model_is_told_when_it_plays(endpoint, monkeypatch, capsys):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    endpoint.script.extend([fake.reply(UP), fake.status(400, "full", error_code="context_length_exceeded")])
    words = [f"compatible:judge@{endpoint.base_url}", FROZEN_LAKE, "--set", "prompt_format=free_think"]
    assert main(["play", *words, "--colors", "none"]) == 0
    said = capsys.readouterr().out
    assert "HTTP 400: full" in said and "no response" not in said
    assert len(endpoint.requests) == 2


def test_a_refusal_is_the_models_answer(endpoint, agent):
    refused = fake.completion("I will not.")
    refused["choices"][0]["finish_reason"] = "content_filter"
    endpoint.script.append(fake.body_of(refused))
    with lake() as worlds:
        (episode,) = rollout(agent(), worlds, [0], env_ids=[FROZEN_LAKE])
    assert episode.turns[0].stop_reason == "content_filter" and failure_of(episode) == ""


def test_no_episode_waits_for_another(endpoint, agent):
    """One reply is held back until all other episodes are over."""
    others = threading.Event()
    endpoint.script.append(lambda handler: (others.wait(20), fake.reply(UP)(handler)))
    with lake(2) as worlds:
        order = []
        for played in play_episodes(agent(), worlds, list(range(5)), env_id=FROZEN_LAKE):
            order.append(played.number)
            if len(order) == 4:
                others.set()
    assert sorted(order) == [0, 1, 2, 3, 4]
    assert order[-1] in (0, 1)
    assert others.is_set()


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("compatible:tiny", "NAME@URL"),
        ("compatible:tiny@localhost", "address with its version"),
        ("compatible:tiny@http://[::1/v1", "address with its version"),
        ("compatible:tiny@http://127.0.0.1:99999/v1", "address with its version"),
        ("compatible:tiny@http://127.0.0.1:abc/v1", "address with its version"),
        ("compatible:tiny@http:///v1", "address with its version"),
        ("compatible:tiny@http://local\nhost/v1", "address with its version"),
        ("openai", "openai:MODEL"),
        ("opnai:gpt", "openai"),
    ],
)
def test_names_that_cannot_be(name, told, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with pytest.raises(ConfigError, match=told):
        make_agent(name)


def test_a_missing_key_is_named(monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    pytest.importorskip("anthropic")
    with pytest.raises(ConfigError, match="ANTHROPIC_API_KEY"):
        make_agent("anthropic:claude")
