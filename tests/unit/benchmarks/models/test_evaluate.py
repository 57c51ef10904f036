"""One agent is evaluated: every item of a benchmark once, judged, and on a board like any other."""

import json
from pathlib import Path

import pytest

from agents.blind_script import ScriptAgent
from benchmarks.__main__ import main
from benchmarks.models.board.board import Board
from benchmarks.models.cli.evaluate_command import EvaluateOptions
from benchmarks.models.judged import judge_episodes
from tests.unit.vlm_envs.qa.datasets.test_benchmarks import NUM_ITEMS, vstar
from tests.unit.vlm_envs.qa.test_datasets import TALLYQA, image_bytes, write
from vlm_envs.splits import split_seeds

TINY = Path(__file__).parents[4] / "training/recipes/checkpoints/frozenlake_tiny"
HERE = "tests.unit.benchmarks.models.test_evaluate"
LAKE = "VLM/FrozenLake-v0:size=3"


def first_option():
    """Returns an agent that looks at nothing."""
    return ScriptAgent(("<think>-</think><answer>A</answer>",))


def evaluate(out, *words):
    return main(["evaluate", *words, "--out", str(out)])


@pytest.fixture
def benchmark(tmp_path):
    folder = tmp_path / "vstar"
    folder.mkdir()
    return f"VLM/ZoomQA-v0:dataset=vstar,folder={vstar(folder)},prompt_format=direct"


def test_every_item_of_a_benchmark_is_played_once(tmp_path, benchmark, capsys):
    assert evaluate(tmp_path / "board", f"{HERE}:first_option", "--world", benchmark) == 0
    episodes = Board(tmp_path / "board").episodes()
    own = [each for each in episodes if each["agent"] == f"{HERE}:first_option"]
    items = [each["turns"][0]["state"]["sample_id"] for each in own]
    assert len(items) == len(set(items)) == NUM_ITEMS
    assert {each["agent"] for each in episodes} == {f"{HERE}:first_option", "random", "oracle"}
    assert "consistency" in capsys.readouterr().out


@pytest.mark.usefixtures("short_search")
@pytest.mark.parametrize("command", ["run", "evaluate"])
def test_lazy_skips_a_benchmark_without_training_levels_and_plays_the_other_world(tmp_path, benchmark, capsys, command):
    words = ["--agent", f"{HERE}:first_option"] if command == "run" else [f"{HERE}:first_option"]
    worlds = ["--world", benchmark, "--world", LAKE, "--episodes", "1"]
    assert main([command, *words, *worlds, "--out", str(tmp_path / "board")]) == 0
    assert "lazy does not play VLM/ZoomQA-v0" in capsys.readouterr().err
    lazy = [each["world"] for each in Board(tmp_path / "board").episodes() if each["agent"] == "lazy"]
    assert lazy == [LAKE]


def test_lazy_alone_with_a_benchmark_is_refused(tmp_path, benchmark, capsys):
    words = ["run", "--agent", "lazy", "--world", benchmark, "--no-references", "--out", str(tmp_path / "board")]
    assert main(words) == 2
    assert "lazy does not play" in capsys.readouterr().err
    assert not (tmp_path / "board").exists()


def test_an_item_that_cannot_be_shown_is_left_out_and_no_other_counted_twice(tmp_path, capsys):
    for number in (0, 1, 2, 3, 5):
        write(tmp_path / "images" / f"{number}.png", image_bytes())
    write(tmp_path / "test.json", [TALLYQA | {"image": f"{number}.png"} for number in range(6)])
    words = ("--world", f"VLM/ZoomQA-v0:dataset=tallyqa,folder={tmp_path},prompt_format=direct", "--no-references")
    assert evaluate(tmp_path / "board", "oracle", *words) == 0
    left_out = "omitted 1 that cannot be shown. test.json, row 5: "
    assert left_out in capsys.readouterr().err
    items = [each["turns"][0]["state"]["sample_id"] for each in Board(tmp_path / "board").episodes()]
    assert sorted(items) == [f"tallyqa:test/{number}" for number in (0, 1, 2, 3, 5)]
    write(tmp_path / "images" / "4.png", image_bytes())
    assert evaluate(tmp_path / "board", "oracle", *words) == 0, "and is played once it is there"
    assert len(Board(tmp_path / "board").episodes()) == 6 and left_out not in capsys.readouterr().err


def test_fewer_items_are_played_where_asked_for(tmp_path, benchmark):
    words = ("--world", benchmark, "--episodes", "2", "--no-references")
    assert evaluate(tmp_path / "board", "oracle", *words) == 0
    assert len(Board(tmp_path / "board").episodes()) == 2


@pytest.mark.usefixtures("short_search")
def test_a_reference_under_a_name_of_ones_own_plays_once(tmp_path):
    assert evaluate(tmp_path / "board", "random,as=chance", "--world", LAKE, "--episodes", "1") == 0
    assert {each["label"] for each in Board(tmp_path / "board").record["agents"]} == {"chance", "lazy", "oracle"}


def test_a_benchmark_of_many_items_does_not_lengthen_what_has_no_end(tmp_path, benchmark, monkeypatch):
    monkeypatch.setattr("benchmarks.models.cli.run_command._DEFAULT_EPISODES", 2)
    words = ("--world", benchmark, "--world", LAKE, "--no-references")
    assert evaluate(tmp_path / "board", "oracle", *words) == 0
    worlds = [each["world"].partition(":")[0] for each in Board(tmp_path / "board").episodes()]
    assert {name: worlds.count(name) for name in worlds} == {"VLM/ZoomQA-v0": NUM_ITEMS, "VLM/FrozenLake-v0": 2}


def test_a_split_without_items_is_refused_before_anything_is_played(tmp_path, benchmark, capsys):
    assert evaluate(tmp_path / "board", "oracle", "--world", benchmark, "--split", "val") == 2
    assert "has no sample of split 'val'" in capsys.readouterr().err
    assert not (tmp_path / "board").exists()


def test_judges_stand_beside_success_and_the_board_is_like_any_other(tmp_path, capsys):
    words = ("oracle", "--world", LAKE, "--episodes", "3", "--no-references")
    assert evaluate(tmp_path / "board", *words) == 0
    told = capsys.readouterr().out
    assert "grounding" in told and "worldmodeling" in told and "turns × best" in told
    played = Board(tmp_path / "board").episodes()
    assert {json.dumps(each["judged"]) for each in played} == {
        '{"grounding": 1.0, "worldmodeling": 1.0, "consistency": 1.0}'
    }
    assert main(["replay", str(tmp_path / "board")]) == 0
    # Run again nothing is played again, and further agents may join
    assert evaluate(tmp_path / "board", *words) == 0
    assert Board(tmp_path / "board").episodes() == played
    run = ["run", "--agent", "random", "--world", LAKE, "--episodes", "3", "--no-references"]
    assert main([*run, "--out", str(tmp_path / "board")]) == 0
    assert len(Board(tmp_path / "board").episodes()) == 6


def test_what_was_judged_is_not_judged_again(tmp_path, monkeypatch):
    words = ("oracle", "--world", LAKE, "--no-references", "--episodes")
    judged = []

    def counted(episodes, *arguments):
        judged.extend(each.seed for each in episodes)
        return judge_episodes(episodes, *arguments)

    monkeypatch.setattr("benchmarks.models.cli.rescore_command.judge_episodes", counted)
    assert evaluate(tmp_path / "board", *words, "2") == 0
    assert evaluate(tmp_path / "board", *words, "3") == 0
    assert sorted(judged) == list(split_seeds("test", 3))


@pytest.mark.soak
def test_a_run_stands_for_its_model(tmp_path):
    model = tmp_path / "run" / "latest" / "model"
    model.parent.mkdir(parents=True)
    model.symlink_to(TINY, target_is_directory=True)
    (tmp_path / "run" / "config.json").write_text("{}")
    words = ["--world", LAKE, "--episodes", "1", "--no-references"]
    assert evaluate(tmp_path / "board", f"hf:{tmp_path / 'run'}", *words) == 0
    assert {each["agent"] for each in Board(tmp_path / "board").episodes()} == {f"hf:{model}"}


def test_a_checkpoint_with_a_temperature_of_its_own(tmp_path):
    world = "VLM/FrozenLake-v0:representation=structured,prompt_example=False"
    words = (f"hf:{TINY}", "--world", world, "--episodes", "2", "--no-references", "--temperature", "0")
    assert evaluate(tmp_path / "board", *words, "--max-tokens", "96") == 0
    board = Board(tmp_path / "board")
    (agent,) = board.record["agents"]
    assert agent["label"] == f"hf:{TINY},max_new_tokens=96,temperature=0.0"
    assert agent["identity"]["settings"] == {"temperature": 0.0, "max_new_tokens": 96}
    assert all(each["judged"]["grounding"] > 0.5 for each in board.episodes())  # it was trained to see


@pytest.mark.parametrize(
    ("agent", "drawn", "asked"),
    [
        ("hf:DIR", {"temperature": 0.7, "top_p": 0.9, "max_tokens": 64}, "temperature=0.7,top_p=0.9,max_new_tokens=64"),
        ("openai:gpt-4.1", {"temperature": 0.0, "max_tokens": 64}, "temperature=0.0,max_tokens=64"),
        ("openai:gpt-4.1,history=full", {"top_p": 0.5}, "top_p=0.5"),
    ],
)
def test_how_responses_are_drawn_is_part_of_the_agent(agent, drawn, asked):
    assert EvaluateOptions(agent=agent, **drawn).sampled_agent == f"{agent},{asked}"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("oracle", "--world", LAKE, "--temperature", "0.5"), "has no setting 'temperature'"),
        (("oracle",), "--world VLM/Sokoban-v0"),
        (("nobody", "--world", LAKE), "Unknown agent 'nobody'"),
        (("oracle", "--world", LAKE, "--judge", "direct"), "needs both --judge-endpoint.model"),
        (("oracle", "--world", LAKE, "--judge", "nowhere:judge"), "cannot import 'nowhere'"),
    ],
)
def test_mistakes_are_told_before_anything_is_played(tmp_path, words, told, capsys):
    assert evaluate(tmp_path / "board", *words) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "board").exists()


def test_without_a_folder_the_remedy_is_said(capsys):
    assert main(["evaluate", "oracle", "--world", LAKE]) == 2
    assert "--out boards/NAME" in capsys.readouterr().err


@pytest.mark.soak
def test_a_checkpoint_in_another_format_than_in_training_is_warned_of_once(tmp_path, capsys):
    words = (f"hf:{TINY},device=cpu,max_new_tokens=2,as=tiny", "--episodes", "1", "--no-references")
    assert evaluate(tmp_path / "other", *words, "--world", LAKE) == 0
    warnings = [line for line in capsys.readouterr().err.splitlines() if line.startswith("Warning: ")]
    assert warnings == [
        f"Warning: tiny was trained on this world with representation=structured, but {LAKE} has "
        "representation=natural_language. To evaluate it in its training format, use "
        "--world VLM/FrozenLake-v0:representation=structured,size=3"
    ]
    assert evaluate(tmp_path / "same", *words, "--world", f"{LAKE},representation=structured") == 0
    assert "Warning: " not in capsys.readouterr().err
