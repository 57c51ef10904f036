"""`python -m agents play` of a checkpoint: in the world that it has learnt, and never another way without a word."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from agents.__main__ import main
from agents.blind_script import ScriptAgent
from agents.play_command import cast

LAKE = "VLM/FrozenLake-v0"
SHORT = {"prompt_format": "no_think", "size": 5, "max_turns": 2}


def saying(tiny_directory: Path, tmp_path: Path, **provenance: Any) -> str:
    """Returns the agent of a model that says what it was made from."""
    shutil.copytree(tiny_directory, tmp_path / "model")
    (tmp_path / "model" / "provenance.json").write_text(json.dumps(provenance))
    return f"hf:{tmp_path / 'model'}"


def world(env_id: str = LAKE, **kwargs: Any) -> dict[str, Any]:
    return {"env_id": env_id, "kwargs": kwargs}


def told(err: str) -> str:
    """Returns the last line of what was written, behind the bars of a model that is loaded."""
    return err.splitlines()[-1]


@pytest.fixture
def lake(tiny_directory, tmp_path):
    """A model that has learnt a lake, and answers in three tokens."""
    return saying(tiny_directory, tmp_path, worlds=[world(**SHORT)], sampling={"max_new_tokens": 3})


def test_a_recipes_start_plays_where_it_has_learnt(capsys):
    few = ["--agent-set", "max_new_tokens=9", "--agent-set", "device=cpu", "--max-turns", "2"]
    assert main(["play", "recipe:frozenlake_tiny", *few]) == 0
    said = capsys.readouterr()
    assert "<observation>(the state you see now)</observation>" in said.out, "the format that it has learnt"
    assert "recipe:frozenlake_tiny responds:\n  <think><observation>" in said.out
    reported = told(said.err)
    assert "recipe:frozenlake_tiny was trained on VLM/FrozenLake-v0 with max_turns=3, not 2." in reported
    assert "prompt_format=grounding_worldmodeling, representation=structured, prompt_example=False." in reported


@pytest.mark.parametrize("named", [[], [LAKE]])
def test_a_checkpoint_plays_its_world_with_its_arguments_and_sampling(named, lake, tmp_path, capsys):
    assert main(["play", lake, *named, "--out", str(tmp_path / "kept")]) == 0
    said = capsys.readouterr()
    reported = told(said.err)
    assert reported.startswith(f"{lake} plays {LAKE} ")
    assert "prompt_format=no_think, size=5, max_turns=2;" in reported and "--set NAME=VALUE" in reported
    assert "turn 2" in said.out and "turn 3" not in said.out
    assert said.out.count("Problem: cut off at the token limit") == 2
    (line,) = (tmp_path / "kept" / "trajectories" / "play.jsonl").read_text().splitlines()
    assert len(json.loads(line)["turns"]) == 2
    config = json.loads((tmp_path / "kept" / "config.json").read_text())
    assert (config["name"], config["env_id"], config["arguments"]) == (
        f"{lake} plays {LAKE}",
        LAKE,
        {**SHORT, "reading": "lenient"},
    )


def test_what_is_set_comes_first_and_is_told_where_it_differs(lake, capsys):
    assert main(["play", lake, LAKE, "--set", "size=4", "--set", "max_turns=3", "--set", "prompt_format=no_think"]) == 0
    said = capsys.readouterr()
    assert told(said.err) == f"{lake} was trained on {LAKE} with size=5, not 4; max_turns=2, not 3."
    assert "turn 3" in said.out
    same = cast(lake, None, {"prompt_format": "no_think", "is_slippery": False})
    assert "with the arguments it was trained with: " in same.told, "what is left to the world is as it was, too"
    assert same.kwargs == SHORT | {"is_slippery": False}


def test_a_world_it_has_not_learnt_is_told(lake, capsys):
    assert main(["play", lake, "VLM/Sokoban-v0", "--max-turns", "2", "--set", "prompt_format=no_think"]) == 0
    said = told(capsys.readouterr().err)
    assert said.startswith(f"{lake} was not trained on VLM/Sokoban-v0 but on {LAKE};")


def test_nothing_is_told_of_a_model_that_says_nothing_or_of_other_agents(tiny_directory):
    assert cast(f"hf:{tiny_directory}", LAKE, {"size": 5}).told == ""
    oracle = cast("oracle", LAKE, {"size": 5})
    assert (oracle.agent, oracle.kwargs, oracle.told) == ("oracle", {"size": 5}, "")


def test_of_several_worlds_the_first_is_played_or_the_one_that_is_named_and_nearest(tiny_directory, tmp_path):
    several = [world(size=5, prompt_format="no_think"), world(size=6), world("VLM/Sokoban-v0", max_turns=4)]
    agent = saying(tiny_directory, tmp_path, worlds=several)
    first = cast(agent, None, {})
    assert (first.env_id, first.kwargs) == (LAKE, {"size": 5, "prompt_format": "no_think"})
    assert first.told.endswith("also trained on VLM/Sokoban-v0: name one to see it.")
    named = cast(agent, "VLM/Sokoban-v0", {})
    assert (named.kwargs, "too" in named.told) == ({"max_turns": 4}, False)
    nearest = cast(agent, LAKE, {"size": 6})
    assert nearest.kwargs == {"size": 6}
    assert nearest.told.startswith(f"{agent} plays {LAKE} with the arguments it was trained with: size=6;")


def test_a_mix_plays_any_of_its_worlds():
    assert cast("recipe:mix_tiny", None, {}).env_id == LAKE
    sokoban = cast("recipe:mix_tiny", "VLM/Sokoban-v0", {})
    assert sokoban.kwargs["representation"] == "structured"
    assert Path(sokoban.agent.removeprefix("hf:")).name == "mix_tiny"


@pytest.mark.parametrize("kind", ["hf", "hf-told", "hf-blind", "vllm"])
def test_a_run_is_named_by_its_folder(kind, tiny_directory, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(tiny_directory, run / "latest" / "model")
    (run / "config.json").write_text(json.dumps({"worlds": [world(**SHORT)], "sampling": {"temperature": 0.5}}))
    played = cast(f"{kind}:{run}", None, {})
    assert played.agent == f"{kind}:{run / 'latest' / 'model'}"
    assert (played.env_id, played.kwargs, played.sampling) == (LAKE, SHORT, {"temperature": 0.5})
    assert played.told.startswith(f"{kind}:{run} plays")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["recipe:frozenlake_tny"], "Did you mean 'frozenlake_tiny'?"),
        (["recipe"], "The recipe '' ships no start"),
        (["recipe:mix_tiny", "VLM/Sokban-v0"], "Did you mean 'VLM/Sokoban-v0'?"),
        (["recipe:frozenlake_tiny", "--set", "sise=4"], "Did you mean 'size'?"),
        (["hf:nowhere"], "No checkpoint at nowhere"),
        (["hf:tests"], "No checkpoint at tests"),
        (["hf:MODEL"], "play hf:MODEL needs ENV_ID, such as VLM/Sokoban-v0: "),
        (["hf:BROKEN", LAKE], "Expected a JSON object in "),
        (["hf:STRANGE"], "temperature must be a number; got 'hot'."),
        (["hf:GONE"], "Unknown env 'VLM/Gone-v0'."),
    ],
)
def test_a_mistake_is_told_in_one_line(words, message, tiny_directory, tmp_path, monkeypatch, capsys):
    said = {
        "MODEL": "{}",
        "BROKEN": '{"worlds": [',
        "STRANGE": json.dumps({"worlds": [world()], "sampling": {"temperature": "hot"}}),
        "GONE": json.dumps({"worlds": [world("VLM/Gone-v0")]}),
    }
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tests").mkdir()
    for name in {word.removeprefix("hf:") for word in words} & {*said}:
        shutil.copytree(tiny_directory, tmp_path / name)
        (tmp_path / name / "provenance.json").write_text(said[name])
    assert main(["play", *words]) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert len(shown.splitlines()) == 1


def test_recipes_are_listed_beside_agents(capsys):
    assert main(["list"]) == 0
    assert "\nrecipe:NAME  " in capsys.readouterr().out


@pytest.mark.parametrize(("words", "acts"), [([], True), (["--set", "reading=strict"], False)])
def test_a_game_is_read_leniently_unless_it_is_set_otherwise(words, acts, capsys):
    agent = "tests.unit.agents.test_play_checkpoint:friendly"
    assert main(["play", agent, LAKE, "--set", "prompt_format=no_think", *words]) == 0
    assert ("Nothing was carried out." in capsys.readouterr().out) != acts


def friendly() -> Any:
    """Returns an agent whose responses are not in the format."""
    return ScriptAgent(("Sure! <answer>Up</answer>",))
