"""A served model is the same agent wherever it is served, and a board notes where that was and which model answered."""

from __future__ import annotations

import json
from contextlib import ExitStack

import pytest

pytest.importorskip("openai", reason="needs openai: pip install '.[api]'")

from benchmarks.__main__ import main
from benchmarks.models.board.board import Board
from benchmarks.models.board.board_spec import digest_of
from benchmarks.models.measures.measures import rows
from benchmarks.models.page.page_tables import columns
from benchmarks.models.play.contestants import contestants
from tests.unit.agents.api.endpoint import FakeEndpoint, body_of, completion
from tests.unit.benchmarks.models.playing import ALONE, LAKE, lines_of
from vlm_envs.errors import ConfigError

UP = "<think>No.</think><answer>Up</answer>"
WORLD = f"{LAKE}:max_turns=1,min_solution_length=2"


@pytest.fixture
def servers(monkeypatch):
    """Two servers of one model."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with ExitStack() as stack:
        made = [stack.enter_context(FakeEndpoint()) for _ in range(2)]
        for server in made:
            server.answer = lambda messages: UP
        yield made


def run(out, *agents, episodes=2):
    words = [word for agent in agents for word in ("--agent", agent)]
    return main(["run", *words, "--world", WORLD, "--episodes", str(episodes), ALONE, "--out", str(out)])


def at(server, more=""):
    return f"compatible:qwen@{server.base_url}{more}"


@pytest.mark.parametrize("title", ["", ",as=mine"])
def test_a_server_that_moves_resumes_its_row(tmp_path, servers, capsys, title):
    first, second = servers
    assert run(tmp_path, at(first, title)) == 0
    capsys.readouterr()
    assert run(tmp_path, at(second, title), episodes=5) == 0
    assert (len(first.requests), len(second.requests)) == (2, 3)
    assert {line["agent"] for line in lines_of(tmp_path)} == {"mine" if title else "compatible:qwen"}
    told = capsys.readouterr().err
    assert first.base_url in told and second.base_url in told
    (row,) = rows(Board(tmp_path).lines())
    assert row.addresses == (first.base_url, second.base_url)
    assert "servers" in [column.title for column in columns([row])]
    assert main(["replay", str(tmp_path)]) == 0


def test_a_trailing_slash_is_no_other_address(tmp_path, servers, capsys):
    assert run(tmp_path, at(servers[0])) == 0
    assert run(tmp_path, at(servers[0], "/"), episodes=3) == 0
    assert "was served by" not in capsys.readouterr().err
    assert len(servers[0].requests) == 3


def test_titles_keep_servers_of_one_model_apart(tmp_path, servers):
    assert run(tmp_path, at(servers[0], ",as=one"), at(servers[1], ",as=two")) == 0
    assert [len(server.requests) for server in servers] == [2, 2]
    assert {line["agent"] for line in lines_of(tmp_path)} == {"one", "two"}
    assert run(tmp_path, at(servers[0], ",as=three")) == 0
    assert len(lines_of(tmp_path)) == 6


def test_servers_of_one_model_without_titles_are_refused(servers):
    with pytest.raises(ConfigError, match="as=NAME"):
        contestants([at(servers[0]), at(servers[1])], references=False)


@pytest.mark.parametrize("title", ["", ",as=mine"])
def test_a_board_whose_agents_have_an_address_is_resumed_without_a_rewrite(tmp_path, servers, capsys, title):
    first, second = servers
    assert run(tmp_path, at(first, title)) == 0
    board = Board(tmp_path)
    (agent,) = board.record["agents"]
    identity = {name: value for name, value in agent["identity"].items() if name != "title"}
    identity |= {"name": f"compatible:qwen@{first.base_url}", "base_url": first.base_url}
    earlier = {"label": agent["label"] if title else identity["name"], "identity": identity}
    earlier["digest"] = digest_of(identity)
    (tmp_path / "board.json").write_text(json.dumps(board.record | {"agents": [earlier]}))
    with board.writing():
        named = {"agent": earlier["label"], "agent_digest": earlier["digest"]}
        board.rewrite([{k: v for k, v in line.items() if k != "address"} | named for line in board.lines()])
    sealed = (tmp_path / "episodes.jsonl").read_bytes()
    capsys.readouterr()
    assert run(tmp_path, at(second, title), episodes=3) == 0
    assert earlier["label"] in capsys.readouterr().out
    assert len(second.requests) == 1
    assert (tmp_path / "episodes.jsonl").read_bytes().startswith(sealed)
    assert Board(tmp_path).record["agents"] == [earlier]
    assert {line["agent_digest"] for line in lines_of(tmp_path)} == {earlier["digest"]}
    assert main(["replay", str(tmp_path)]) == 0


def test_other_settings_under_the_same_name_are_another_agent(tmp_path, servers, capsys):
    assert run(tmp_path, at(servers[0], ",as=mine")) == 0
    assert run(tmp_path, at(servers[0], ",history=last_turns:1,as=mine")) == 2
    assert "another mine" in capsys.readouterr().err


def test_a_model_that_changes_under_its_name_is_reported(tmp_path, servers, capsys):
    server, _ = servers
    assert run(tmp_path, at(server)) == 0
    assert "model IDs" not in capsys.readouterr().err
    later = body_of(completion(UP) | {"model": "small-2026-12-24"})
    server.script.extend([later] * 3)
    assert run(tmp_path, at(server), episodes=5) == 0
    told = capsys.readouterr()
    assert "small-2026-11-22 (2 responses), small-2026-12-24 (3 responses)" in told.err
    assert "model IDs" in told.out
    (row,) = rows(Board(tmp_path).lines())
    assert row.models == ("small-2026-11-22", "small-2026-12-24")
