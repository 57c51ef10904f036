"""The ways of asking that a paper compares: each world in each of them, on the same questions, in one table."""

from __future__ import annotations

from benchmarks.__main__ import main
from benchmarks.models.board.board import Board
from benchmarks.models.measures.comparisons import MODES

BLOCKS = "VLM/ZoomQA-v0:source=vlm_envs.content.blocks:counted_blocks,max_pixels=12544"


def evaluate(out, *words):
    return main(["evaluate", "oracle", *words, "--modes", "ivgr", "--no-references", "--out", str(out)])


def test_each_question_is_asked_in_every_way(tmp_path, capsys):
    assert evaluate(tmp_path / "board", "--world", BLOCKS, "--episodes", "3") == 0
    table = capsys.readouterr().out.rpartition(f"{BLOCKS}\n")[2]
    found = {mode: line for mode in MODES["ivgr"] for line in table.splitlines() if f" {mode} " in line}
    assert list(found) == ["grounded", "textual", "views none", "views crops", "views union", "views both"]
    assert all("1.000" in line and "0.000" in line for line in found.values()), "the expert is right, and in format"
    assert found["grounded"].count("1.000") > found["textual"].count("1.000"), "boxes are written in one of the two"
    asked = {}
    for each in Board(tmp_path / "board").episodes():
        first = each["turns"][0]["state"]
        asked.setdefault(each["world"], []).append(first["sample_id"])
    assert len(asked) == 6 and len({tuple(ids) for ids in asked.values()}) == 1


def test_views_show_what_they_say(tmp_path):
    assert evaluate(tmp_path / "board", "--world", BLOCKS, "--episodes", "4") == 0
    num_shown = {}
    for each in Board(tmp_path / "board").episodes():
        if len(each["turns"]) == 2:
            views = each["world"].rpartition("views=")[2]
            num_shown.setdefault(views, []).append(len(each["turns"][1]["images"]))
    assert num_shown["none"] == [0, 0, 0, 0] and num_shown["union"] == [1, 1, 1, 1]
    several = [crops > 1 for crops in num_shown["crops"]]
    assert any(several) and not all(each == 1 for each in num_shown["both"])
    assert num_shown["both"] == [crops + (crops > 1) for crops in num_shown["crops"]], "one box is its own surroundings"


def test_a_world_that_says_how_it_is_asked_is_refused(tmp_path, capsys):
    world = f"{BLOCKS},prompt_format=ivgr_grounded"
    assert evaluate(tmp_path / "board", "--world", world) == 2
    assert "sets prompt_format, which --modes ivgr varies over grounded, textual" in capsys.readouterr().err
    assert not (tmp_path / "board").exists()
