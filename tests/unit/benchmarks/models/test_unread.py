"""Served thinking models act on a default board; what could not be read or was cut off is said last."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest

pytest.importorskip("openai", reason="needs openai: pip install '.[api]'")
pytest.importorskip("anthropic", reason="needs anthropic: pip install '.[api]'")
pytest.importorskip("google.genai", reason="needs google-genai: pip install '.[api]'")

from agents.agent import Response
from agents.oracle import OracleAgent
from agents.registry import make_agent
from benchmarks.__main__ import main
from benchmarks.models.board.board_spec import WorldSpec
from benchmarks.models.cli.endings import unread_of
from tests.unit.agents.api.asking import respond_to
from tests.unit.agents.api.endpoint import FakeEndpoint, body_of, completion, status
from tests.unit.agents.api.wires import WIRES, Said
from tests.unit.benchmarks.models.playing import ALONE, contestant, lines_of, play

LAKE = "VLM/FrozenLake-v0:prompt_format=free_think"
ADDRESSES = {
    "openai": ("OPENAI_BASE_URL", "/v1"),
    "openai-chat": ("OPENAI_BASE_URL", "/v1"),
    "anthropic": ("ANTHROPIC_BASE_URL", ""),
    "google": ("GOOGLE_GEMINI_BASE_URL", ""),
}
CALLS = {
    "compatible": {"tool_calls": [{"id": "1", "type": "function", "function": {"name": "go", "arguments": "{}"}}]},
    "anthropic": {"type": "tool_use", "id": "1", "name": "go", "input": {}},
    "openai": {"type": "function_call", "id": "1", "call_id": "1", "name": "go", "arguments": "{}"},
    "google": {"functionCall": {"name": "go", "args": {}}},
}


class Serving(FakeEndpoint):
    """Says the same to every request, in one provider's format."""

    body: object

    def next_action(self, request, key):
        self.requests.append(request)
        return body_of(self.body)


@pytest.fixture
def server():
    with Serving() as serving:
        yield serving


@pytest.fixture(params=sorted(WIRES))
def wire(request, server, monkeypatch):
    """A provider whose requests go to the server, with its agent's name as `agent`."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "sk-only-for-tests")
    provider, host = request.param, f"http://127.0.0.1:{server.server_port}"
    if provider == "compatible":
        return WIRES[provider], f"compatible:judge@{host}/v1"
    variable, version = ADDRESSES[provider]
    monkeypatch.setenv(variable, host + version)
    return WIRES[provider], f"{provider}:judge"


def played(agent, out, *words):
    """Returns the turns of a board that an agent played, and the last line of what was printed."""
    command = ["run", "--agent", f"{agent},max_attempts=1,as=m", "--world", LAKE, "--episodes", "2", ALONE]
    assert main([*command, "--out", str(out), *words]) == 0
    return [turn for line in lines_of(out) for turn in line["turns"]]


@pytest.mark.parametrize(
    "said",
    [
        Said(text="I should go up.</think>\n\n<answer>Up</answer>"),
        Said(text="<answer>Up</answer>", thoughts="I should go up."),
        Said(text="\n\n<answer>**Up**</answer>", thoughts="Up or <answer>Down</answer>?"),
    ],
    ids=["template opened the thought", "thoughts beside the text", "thoughts beside bold text"],
)
@pytest.mark.sample(4)
def test_a_served_thinking_model_acts_on_a_default_board(said, wire, server, tmp_path, capsys):
    provider, agent = wire
    server.body = provider.body(said)
    turns = played(agent, tmp_path / "lenient")
    assert turns and all(turn["actions"] == ["Up"] for turn in turns)
    assert "could not be read" not in capsys.readouterr().err
    assert all(turn["actions"] == [] for turn in played(agent, tmp_path / "strict", "--reading", "strict"))
    assert "could not be read" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("text", ["", "<think>I wonder"])
@pytest.mark.sample(2)
def test_responses_that_are_cut_off_are_said_last_with_what_helps(text, wire, server, tmp_path, capsys):
    provider, agent = wire
    server.body = provider.body(Said(text=text, stop="length", thoughts="hm", completion=2048))
    num_turns = len(played(f"{agent},max_tokens=2048", tmp_path / "board"))
    unread, cut = capsys.readouterr().err.splitlines()[-2:]
    assert unread == (
        f"m: {num_turns} of {num_turns} turns could not be read, because the response was cut off at the token limit."
    )
    said, advised, _ = cut.split("'")
    assert f"m: {num_turns} of {num_turns} responses were cut off at max_tokens=2048." in said
    assert "max_tokens=4096" in advised
    # The advice is followed on the same board
    followed = ["run", "--agent", advised, "--world", LAKE, "--episodes", "2", ALONE, "--out", str(tmp_path / "board")]
    assert main(followed) == 0
    assert "were cut off before max_tokens=4096 was reached" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("tokens", "is_reached"),
    [((2048, 2048, 30), True), ((30, 31, 2048), False), ((None, None, 30), False), ((None, None, None), True)],
)
def test_responses_that_the_server_cut_off_far_below_the_limit_are_said_to_be(tokens, is_reached, tmp_path):
    run = play(tmp_path, [contestant(Cut(tokens))], episodes=3, worlds=[WorldSpec.parse(f"{LAKE},max_turns=2")])
    line = unread_of(run)[-1]
    assert ("cut off at max_tokens=2048" in line, "context length" in line) == (is_reached, not is_reached)


def test_a_response_that_was_cut_off_behind_its_answer_is_counted_too(server, tmp_path, capsys):
    server.body = WIRES["compatible"].body(
        Said(text="<think>Up.</think><answer>Up</answer> Now", stop="length", completion=16_384)
    )
    played(f"compatible:judge@{server.base_url}", tmp_path / "board")
    err = capsys.readouterr().err
    assert "could not be read" not in err and "were cut off at max_tokens=16384" in err.splitlines()[-1]


@pytest.mark.sample(1)
def test_responses_of_thoughts_alone_are_counted_with_that_reason(wire, server, tmp_path, capsys):
    provider, agent = wire
    server.body = provider.body(Said(text="", thoughts="I wonder."))
    assert {turn["stop_reason"] for turn in played(agent, tmp_path / "board")} == {"stop"}
    last = capsys.readouterr().err.splitlines()[-1]
    assert "turns could not be read, because the response held only thoughts and no answer" in last


def calling(provider):
    """Returns a body that calls a tool and says nothing."""
    body = provider.body(Said(text=""))
    if provider.provider == "anthropic":
        return {**body, "content": [CALLS["anthropic"]], "stop_reason": "tool_use"}
    if provider.provider == "openai":
        return {**body, "output": [CALLS["openai"]]}
    if provider.provider == "google":
        body["candidates"][0]["content"]["parts"] = [CALLS["google"]]
        return body
    body["choices"][0]["message"] |= CALLS["compatible"]
    body["choices"][0]["finish_reason"] = "tool_calls"
    return body


@pytest.mark.sample(1)
def test_calls_of_tools_that_were_not_offered_are_counted_with_that_reason(wire, server, tmp_path, capsys):
    provider, agent = wire
    server.body = calling(provider)
    assert {turn["stop_reason"] for turn in played(agent, tmp_path / "board")} == {"tool_call"}
    last = capsys.readouterr().err.splitlines()[-1]
    assert "turns could not be read, because the model called a tool that it was not offered" in last


def test_gemini_that_fails_to_call_a_tool_has_answered(server, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("GEMINI_API_KEY", "sk-only-for-tests")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", f"http://127.0.0.1:{server.server_port}")
    server.body = {**WIRES["google"].body(Said()), "candidates": [{"finishReason": "UNEXPECTED_TOOL_CALL", "index": 0}]}
    assert {turn["stop_reason"] for turn in played("google:judge", tmp_path / "board")} == {"tool_call"}


def test_the_most_common_reason_is_named_and_few_unread_turns_are_not(server, tmp_path, capsys):
    answers = iter(["Up", "<answer>fly</answer>", "Right"] * 20)

    def next_action(request, key):
        return body_of(WIRES["compatible"].body(Said(text=next(answers))))

    server.next_action = next_action
    agent = f"compatible:judge@{server.base_url},max_parallel=1"
    num_turns = len(played(agent, tmp_path / "board"))
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == (
        f"m: {num_turns} of {num_turns} turns could not be read; the most common reason (4 of "
        f"{num_turns}): there is no complete <answer>…</answer> outside of thoughts."
    )
    answers = iter(["<answer>Up</answer>"] * 5 + ["Up"] + ["<answer>Up</answer>"] * 30)
    played(agent, tmp_path / "other")
    assert "could not be read" not in capsys.readouterr().err


class Cut(OracleAgent):
    """Is cut off after some tokens or after a number that is not known, by a server that allows 2,048."""

    def __init__(self, tokens):
        super().__init__()
        self.client = SimpleNamespace(price=None, config=SimpleNamespace(max_tokens=2048))
        self.tokens = itertools.cycle(tokens)

    def respond(self, rows, observations):
        usage = [
            {} if each is None else {"completion_tokens": float(each)}
            for _, each in zip(rows, self.tokens, strict=False)
        ]
        return [Response(text="Hm", stop_reason="length", usage=each) for each in usage]


class Upward(OracleAgent):
    """Gives the same answer without a thought everywhere."""

    def respond(self, rows, observations):
        return [Response(text="<answer>Up</answer>") for _ in rows]


def test_a_world_of_few_turns_is_reported_beside_one_of_many_turns(tmp_path):
    unread, read = (
        WorldSpec.parse(f"{LAKE},max_turns=2"),
        WorldSpec.parse("VLM/FrozenLake-v0:prompt_format=no_think,max_turns=20"),
    )
    run = play(tmp_path / "board", [contestant(Upward())], worlds=[unread, read])
    assert len([turn for line in lines_of(tmp_path / "board") for turn in line["turns"]]) > 5 * 8
    (line,) = unread_of(run)
    assert "8 of 8 turns" in line and unread.label in line
    (line,) = unread_of(play(tmp_path / "alone", [contestant(Upward())], worlds=[unread]))
    assert "8 of 8 turns" in line and unread.label not in line


@pytest.mark.parametrize("reading", ["lenient", "strict"])
def test_different_answers_with_one_reason_are_counted_together_and_one_is_shown(reading, tmp_path):
    answers = itertools.cycle(["- maybe left", "it's up", "'b'; expected \"c\"", "so" * 80])
    agent = Upward()
    agent.respond = lambda rows, _: [
        Response(text=f"<think>Hm.</think><answer>{answer}</answer>") for _, answer in zip(rows, answers, strict=False)
    ]
    world = WorldSpec.parse(f"{LAKE},max_turns=2", reading=reading)
    (line,) = unread_of(play(tmp_path, [contestant(agent)], worlds=[world]))
    assert "8 of 8 turns could not be read, because" in line
    assert "'- maybe left'" in line and "; expected " in line


def test_evaluate_also_ends_with_the_number_of_cut_off_responses(server, tmp_path, capsys):
    server.body = WIRES["compatible"].body(Said(text="", stop="length", completion=16_384))
    command = ["evaluate", f"compatible:judge@{server.base_url},max_attempts=1,as=m", "--world", LAKE]
    assert main([*command, "--episodes", "1", "--no-references", "--out", str(tmp_path / "board")]) == 0
    assert "responses were cut off at max_tokens=16384" in capsys.readouterr().err.splitlines()[-1]


def test_agents_behind_an_api_may_answer_at_length_by_default(wire, server):
    _, name = wire
    agent = make_agent(name)
    assert agent.config.max_tokens == 16_384 and agent.config.timeout_s >= 600
    agent.close()


def test_anthropics_package_sends_long_answers_without_a_stream(server, monkeypatch):
    """Its client refuses some models and lengths with its own default time limit, and takes them with ours."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-only-for-tests")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", f"http://127.0.0.1:{server.server_port}")
    server.body = WIRES["anthropic"].body(Said())
    for settings in ({}, {"max_tokens": 100_000}):
        agent = make_agent("anthropic:claude-opus-4-1@20250805", max_attempts=1, **settings)
        (response,) = respond_to(agent, [0], [{"text": "Look."}])
        agent.close()
        assert response.text == Said().text, response.error


def test_a_limit_that_a_model_does_not_take_is_named(server, tmp_path, capsys):
    message = "max_tokens: 16384 > 4096, which is the maximum allowed number of output tokens"
    server.next_action = lambda request, key: (
        status(400, message) if request["max_tokens"] > 4096 else body_of(completion("yes"))
    )
    command = ["run", "--agent", f"compatible:judge@{server.base_url},max_attempts=1,as=m", "--world", LAKE, ALONE]
    assert main([*command, "--episodes", "1", "--out", str(tmp_path / "board")]) == 1
    err = capsys.readouterr().err
    assert "max_tokens=16384," in err and "max_tokens=N,as=m-N'" in err
