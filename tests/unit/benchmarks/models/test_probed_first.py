"""A model that does not answer is one line before any world is made; a busy one is not refused."""

from __future__ import annotations

import socket

import pytest

pytest.importorskip("openai", reason="needs openai: pip install '.[api]'")

from benchmarks.__main__ import main
from benchmarks.models.board.board_spec import WorldSpec
from tests.unit.agents.api.endpoint import FakeEndpoint, status
from tests.unit.benchmarks.models.playing import ALONE, LAKE, lines_of

WORLD = f"{LAKE}:max_turns=1,min_solution_length=2"


@pytest.fixture
def server(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with FakeEndpoint() as serving:
        serving.answer = lambda messages: "<think>No.</think><answer>Up</answer>"
        yield serving


@pytest.fixture
def nobody():
    """The address of a port on loopback that refuses connections."""
    with socket.socket() as kept:
        kept.bind(("127.0.0.1", 0))  # bound and not listening
        yield f"http://127.0.0.1:{kept.getsockname()[1]}/v1"


def run(out, *agents, command="run", episodes=2):
    named = [word for agent in agents for word in (("--agent", agent) if command == "run" else (agent,))]
    return main([command, *named, "--world", WORLD, "--episodes", str(episodes), ALONE, "--out", str(out)])


def agent_at(address, more=""):
    return f"compatible:qwen@{address},max_attempts=1{more}"


@pytest.mark.parametrize("command", ["run", "evaluate"])
def test_a_wrong_model_name_is_one_line_and_nothing_is_created(tmp_path, server, capsys, monkeypatch, command):
    monkeypatch.setattr(WorldSpec, "_met", property(lambda spec: pytest.fail("a world was made")))
    server.on_probe = status(404, "no model qwen")
    assert run(tmp_path / "board", agent_at(server.base_url), command=command) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "no model qwen" in told
    assert not server.requests and not (tmp_path / "board").exists()


def test_a_wrong_address_is_one_line_and_nobody_plays(tmp_path, server, nobody, capsys):
    assert run(tmp_path / "board", agent_at(nobody, ",as=lost"), agent_at(server.base_url, ",as=there")) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "lost does not answer" in told
    assert not server.requests and not (tmp_path / "board").exists()


@pytest.mark.parametrize("code", [429, 503, 529])
def test_a_busy_model_is_not_refused(tmp_path, server, code):
    server.on_probe = status(code, "busy", headers={"retry-after": "0"})
    assert run(tmp_path / "board", agent_at(server.base_url)) == 0
    assert len(lines_of(tmp_path / "board")) == 2


def test_who_has_nothing_left_to_play_is_not_asked(tmp_path, server, nobody, capsys):
    assert run(tmp_path / "board", agent_at(server.base_url)) == 0
    assert run(tmp_path / "board", agent_at(nobody)) == 0, "it is through, so its server may be gone"
    assert run(tmp_path / "board", agent_at(nobody), "random") == 0, "others may join"
    before = (tmp_path / "board" / "episodes.jsonl").read_bytes()
    capsys.readouterr()
    assert run(tmp_path / "board", agent_at(nobody), episodes=4) == 2
    assert "compatible:qwen does not answer" in capsys.readouterr().err
    assert (tmp_path / "board" / "episodes.jsonl").read_bytes() == before
    assert run(tmp_path / "board", agent_at(server.base_url), episodes=4) == 0, "and nobody holds the board"
