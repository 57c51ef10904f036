"""On a board a model's own limits are unsolved episodes, and replies without counts keep their cost."""

import json

import pytest

pytest.importorskip("openai", reason="needs openai: pip install '.[api]'")

from benchmarks.__main__ import main
from tests.unit.agents.api.endpoint import FakeEndpoint, completion, status
from tests.unit.agents.api.endpoint import body_of as says

LAKE = "VLM/FrozenLake-v0:prompt_format=free_think,max_turns=3"
UP = "<think>Up is free.</think><answer>Up</answer>"


@pytest.fixture
def server(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with FakeEndpoint() as endpoint:
        endpoint.answer = lambda messages: UP
        yield endpoint


def run(server, out, *words, settings="max_attempts=1"):
    agent = f"compatible:judge@{server.base_url},{settings},as=m"
    common = ["--world", LAKE, "--episodes", "12", "--no-references"]
    code = main(["run", "--agent", agent, *common, "--out", str(out), *words])
    lines = [json.loads(line) for line in (out / "episodes.jsonl").read_text().splitlines()]
    return code, lines


def test_a_context_that_is_full_is_an_ending_and_never_asked_again(server, tmp_path, capsys):
    answer = server.next_action

    def next_action(request, key):
        full = status(400, "maximum context length is 99", error_code="context_length_exceeded")
        action = answer(request, key)
        return full if len(request["messages"]) > 1 else action

    server.next_action = next_action
    code, lines = run(server, tmp_path / "board")
    assert code == 0 and len(lines) == 12
    assert not any(line["error"] or line["success"] for line in lines)
    num_requests = len(server.requests)
    assert run(server, tmp_path / "board") == (0, lines)
    assert len(server.requests) == num_requests
    assert main(["replay", str(tmp_path / "board")]) == 0
    assert "exceeded a limit of the model (HTTP 400: maximum context length is 99" in capsys.readouterr().err


def test_a_budget_run_goes_on_without_counts_and_says_so(server, tmp_path, capsys):
    prices = tmp_path / "prices.toml"
    prices.write_text('[models]\n"judge" = { prompt = 1.0, completion = 1.0 }\n')
    server.script.extend([says(completion(UP)), says({**completion(UP), "usage": None})])
    settings = f"max_attempts=1,max_parallel=1,prices={prices}"
    code, lines = run(server, tmp_path / "board", "--budget-usd", "5", settings=settings)
    assert code == 0 and len(lines) == 12
    assert all(line["usd"] > 0 and line["tokens"] > 0 for line in lines)
    assert sum(line.get("uncounted", 0) for line in lines) == 1
    assert "m: the server did not count the tokens of 1 reply" in capsys.readouterr().err
