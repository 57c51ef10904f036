"""`python -m agents play` shows each turn, bad output included, keeps it on a page, and ends cleanly."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import pytest

from agents.__main__ import main
from agents.agent import Response
from agents.oracle import OracleAgent
from agents.registry import AGENTS, AgentEntry
from tests.unit.agents.api.endpoint import FakeEndpoint, status
from tests.unit.benchmarks.models.short_search import shorten_search
from vlm_envs.parts import Dynamics
from vlm_envs.worlds.frozen_lake import FrozenLakeDynamics

CHECKOUT = Path(__file__).parents[3]
LAKE = ["VLM/FrozenLake-v0", "--set", "prompt_format=no_think"]
HF = f"hf:{CHECKOUT / 'training' / 'recipes' / 'checkpoints' / 'frozenlake_tiny'}"


class Babbler(OracleAgent):
    """Writes what no world can read, and what would steer a terminal."""

    def respond(self, rows, observations):
        return [Response(text="I think\x1b[2J left", stop_reason="length") for _ in rows]


class Mumbler(OracleAgent):
    """Gives texts in place of responses."""

    def respond(self, rows, observations):
        return ["left" for _ in rows]


class Full(OracleAgent):
    """Has no room for anything."""

    def respond(self, rows, observations):
        return [Response(text="", stop_reason="context", stop_detail="too long") for _ in rows]


class Leaver(OracleAgent):
    """Ends with the exception that it is told to."""

    def __init__(self, kind):
        self.error = {"interrupt": KeyboardInterrupt, "end": EOFError}[kind]

    def respond(self, rows, observations):
        raise self.error


@pytest.fixture(autouse=True)
def agents_of_our_own(monkeypatch):
    for agent in (Babbler, Leaver):
        entry = AgentEntry(factory=f"{__name__}:{agent.__name__}", summary="of a test", part="KIND")
        monkeypatch.setitem(AGENTS, agent.__name__.lower(), entry)


def played(capsys, *words, status=0):
    assert main(["play", *words]) == status
    return capsys.readouterr().out


def test_every_turn_is_shown_with_what_was_said_and_what_came_of_it(capsys):
    said = played(capsys, "oracle", *LAKE, "--seed", "3")
    assert "VLM/FrozenLake-v0, train seed 3, turn 1" in said
    assert "[image of " in said
    assert "oracle responds:\n  <answer>" in said
    assert "Carried out: " in said
    assert "Solved: " in said


def test_pictures_are_drawn_where_there_are_colors(capsys):
    said = played(capsys, "random", *LAKE, "--colors", "256")
    assert "▀" in said
    assert "[picture" not in said


def test_worlds_splits_seeds_and_settings_are_those_asked_for(capsys):
    words = ["random", *LAKE, "--set", "size=4", "--split", "val", "--episodes", "2", "--agent-set", "seed=7"]
    said = played(capsys, *words)
    assert "val seed 1000000000, turn 1" in said
    assert "val seed 1000000001, turn 1" in said
    assert "random solved" in said
    assert played(capsys, *words) == said
    assert played(capsys, *words[:-1], "seed=8") != said


def test_bad_output_is_shown_as_what_it_is(capsys):
    said = played(capsys, "babbler", *LAKE)
    assert "  I think\\x1b[2J left" in said
    assert "\x1b" not in said
    assert "Nothing was carried out." in said
    assert "Problem: cut off at the token limit" in said
    assert "Not solved in time" in said


class Upward(OracleAgent):
    """Gives an action without a thought."""

    def respond(self, rows, observations):
        return [Response(text="<answer>Up</answer>") for _ in rows]


def test_an_executed_response_out_of_the_format_is_no_problem_of_the_turn(capsys, monkeypatch):
    monkeypatch.setitem(AGENTS, "upward", AgentEntry(factory=f"{__name__}:Upward", summary="of a test"))
    thoughtful = ["VLM/FrozenLake-v0", "--set", "prompt_format=free_think", "--set", "max_turns=2"]
    said = played(capsys, "upward", *thoughtful)
    assert "Carried out: Up\nNot in the format: " in said and "Problem: " not in said
    said = played(capsys, "upward", *thoughtful, "--set", "reading=strict")
    assert "Nothing was carried out.\nProblem: " in said


@pytest.mark.parametrize(
    ("option", "hint"), [(["--reading", "strict"], "--set reading=strict"), (["--world", LAKE[0]], "AGENT ENV_ID")]
)
def test_options_of_other_programs_are_refused_with_what_does_the_same(option, hint, capsys):
    assert main(["play", "random", *option]) == 2
    assert hint in capsys.readouterr().err


def test_a_checkpoint_plays_by_its_directory(tiny_directory, capsys):
    settings = ["--agent-set", "max_new_tokens=3", "--agent-set", "temperature=0", "--agent-set", "device=cpu"]
    assert "Problem: cut off at the token limit" in played(capsys, f"hf:{tiny_directory}", *LAKE, *settings)


def test_a_page_alone_is_written_and_written_again(tmp_path, capsys):
    page = tmp_path / "new" / "lake.html"
    for _ in range(2):
        assert f"Page: {page}" in played(capsys, "oracle", *LAKE, "--out", str(page))
    assert [path.name for path in page.parent.iterdir()] == ["lake.html"]
    text = page.read_text(encoding="utf-8")
    assert "oracle plays VLM/FrozenLake-v0" in text
    assert "was trained" not in text
    assert "Learning curves" not in text


def test_a_folder_keeps_the_episodes_and_is_not_written_over(tmp_path, capsys):
    played(capsys, "oracle", *LAKE, "--out", str(tmp_path / "lake"))
    (line,) = (tmp_path / "lake" / "trajectories" / "play.jsonl").read_text().splitlines()
    assert json.loads(line)["success"]
    assert list((tmp_path / "lake" / "images").rglob("*.png"))
    assert main(["play", "oracle", *LAKE, "--out", str(tmp_path / "lake")]) == 2
    assert "already holds episodes or a run" in capsys.readouterr().err


@pytest.mark.parametrize(("kind", "status"), [("interrupt", 130), ("end", 0)])
def test_whoever_stops_it_gets_no_traceback(kind, status, capsys):
    assert main(["play", f"leaver:{kind}", *LAKE]) == status
    assert ("input has ended" in capsys.readouterr().err) == (kind == "end")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["orcale", *LAKE], "Did you mean 'oracle'?"),
        (["hf:nowhere", *LAKE], "No checkpoint at nowhere"),
        (["oracle", "VLM/FrozenLak-v0"], "Did you mean 'VLM/FrozenLake-v0'?"),
        (["oracle", *LAKE, "--set", "sise=4"], "Did you mean 'size'?"),
        (["oracle", *LAKE, "--set", "split=val"], "--split val"),
        (["oracle", *LAKE, "--agent-set", "mistakes=1"], "no setting 'mistakes'"),
        (["oracle", *LAKE, "--agent-set", "mistake_rate=often"], "mistake_rate must be a finite number"),
        (
            ["oracle", *LAKE, "--agent-set", "mistake_rate"],
            "--agent-set takes NAME=VALUE, such as seed=7; got 'm",
        ),
        (
            [HF, *LAKE, "--agent-set", "temprature=1"],
            "no setting 'temprature'; it has device, dtype, max_context_tokens, max_image_pixels, max_new_tokens, "
            "prefill_chunk_tokens, seed, temperature, top_p. "
            "Did you mean 'temperature'?",
        ),
        ([f"{__name__}:Mumbler", *LAKE], "respond(rows, observations) must return a list of 1 agents.agent.Response"),
        ([HF, *LAKE, "--agent-set", "model=3"], "model can only be set from Python"),
        ([HF, *LAKE, "--agent-set", "temperature=abc"], "temperature must be a number; got 'abc'."),
        (["oracle,mistakes=1", *LAKE], "no setting 'mistakes'"),
        (["oracle,mistake_rate=0.5", *LAKE, "--agent-set", "mistake_rate=1"], "Leave one out."),
        (["oracle,as=", *LAKE], "as= needs a name"),
        (["oracle", *LAKE, "--set", "max_turns=3", "--max-turns", "2"], "max_turns has its own option: --max-turns 3"),
        (["oracle", *LAKE, "--set", "num_envs=3"], "leave out --set num_envs=3"),
        (["oracle", *LAKE, "--out", ""], "--out needs a name"),
        (["oracle", *LAKE, "--episodes", "0"], "--episodes must be at least 1; got 0."),
        (
            ["oracle", *LAKE, "--out", "/proc/none/page.html"],
            "--out /proc/none/page.html: /proc/none cannot be written to",
        ),
    ],
)
def test_a_mistake_is_told_in_one_line(words, message, capsys):
    assert main(["play", *words]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert len(said.splitlines()) == 1


def test_settings_behind_an_agent_are_those_of_agent_set(capsys):
    words = ["VLM/FrozenLake-v0", "--set", "size=4", "--set", "prompt_format=no_think", "--episodes", "2"]
    said = played(capsys, "random,seed=7,as=walker", *words)
    assert said == played(capsys, "random", *words, "--agent-set", "seed=7").replace("random", "walker")
    assert said != played(capsys, "random,seed=8,as=walker", *words)


def test_a_full_context_is_no_lack_of_time(capsys, monkeypatch):
    monkeypatch.setitem(AGENTS, "full", AgentEntry(factory=f"{__name__}:Full", summary="of a test"))
    said = played(capsys, "full", *LAKE)
    assert "Ran out of context: 1 turn" in said and "in time" not in said


def test_lazy_reports_how_far_its_choice_is(capsys, monkeypatch):
    shorten_search(monkeypatch)
    assert main(["play", "lazy", *LAKE, "--set", "size=3"]) == 0
    assert "lazy: choosing responses for VLM/FrozenLake-v0: " in capsys.readouterr().err


@pytest.fixture
def server(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with FakeEndpoint() as serving:
        serving.answer = lambda messages: "<answer>Up</answer>"
        yield serving


def test_a_server_gets_the_settings_behind_its_address(server, capsys):
    pytest.importorskip("openai", reason="needs openai: pip install '.[api]'")
    said = played(capsys, f"compatible:qwen@{server.base_url},max_tokens=77,seed=5", *LAKE, "--max-turns", "2")
    request = server.requests[0]
    assert (request["model"], request["max_tokens"], request["seed"]) == ("qwen", 77, 5)
    assert "Not solved in time" in said


def test_a_wrong_model_name_is_one_line_and_nothing_is_played(server, capsys):
    pytest.importorskip("openai", reason="needs openai: pip install '.[api]'")
    server.on_probe = status(404, "no model qwen")
    assert main(["play", f"compatible:qwen@{server.base_url}", *LAKE]) == 2
    told = capsys.readouterr()
    assert "no model qwen" in told.err and told.err.count("\n") == 1 and not told.out and not server.requests


def test_a_server_that_is_not_there_is_one_line(capsys, tmp_path):
    pytest.importorskip("openai", reason="needs openai: pip install '.[api]'")
    with socket.socket() as kept:
        kept.bind(("127.0.0.1", 0))  # bound and not listening
        address = f"http://127.0.0.1:{kept.getsockname()[1]}/v1"
        words = [f"compatible:qwen@{address}", *LAKE, "--out", str(tmp_path / "lake")]
        assert main(["play", *words]) == 2
    told = capsys.readouterr().err
    assert "does not answer" in told and told.count("\n") == 1 and not (tmp_path / "lake").exists()


def test_an_oracle_without_a_plan_to_carry_out_says_so(capsys, monkeypatch):
    monkeypatch.setattr(FrozenLakeDynamics, "plan", Dynamics.plan)
    assert main(["play", "oracle", *LAKE, "--max-turns", "3"]) == 0
    assert "VLM/FrozenLake-v0 has no planner: oracle " in capsys.readouterr().err


def test_the_agents_are_listed(capsys):
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("hf:DIR ") for line in lines)
    # Summaries stand below one another, whatever the names' lengths
    begins = {re.search(r"\s{2,}", line).end() for line in lines}
    assert len(begins) == 1
