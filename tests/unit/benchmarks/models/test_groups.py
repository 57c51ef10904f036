"""Judging by group adds up as the benchmarks say: VL-RewardBench over items, ARMBench-VL over tracks."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("pysbd", reason="needs pysbd: pip install '.[tools]'")

from PIL import Image

from agents.blind_script import ScriptAgent
from benchmarks.__main__ import main
from benchmarks.models.board.board import Board
from benchmarks.models.measures.comparisons import GroupedRow, grouped_rows, grouped_text

HERE = "tests.unit.benchmarks.models.test_groups"
GROUPS = ("hallucination_pair-1", "RLHF-V-2", "mathverse_3", "wildvision-4")
"""Ids of two items about hallucination, one of reasoning, one general."""


def scores(accuracy: float, number: int) -> list[float]:
    """Returns scores of so many items whose mean is as near to an accuracy as it can be."""
    return [1.0] * round(accuracy * number) + [0.0] * (number - round(accuracy * number))


def test_arm_thinkers_row_of_table_2_adds_up():
    """Groups of VL-RewardBench have 749, 318 and 183 items; tracks of ARMBench-VL 550, 489 and 460 (table 6)."""
    bench = {"hallucination": scores(0.720, 749), "reasoning": scores(0.648, 318), "general": scores(0.557, 183)}
    row = GroupedRow(world="", agent="", groups=bench, is_of_groups=False)
    assert round(row.overall, 3) == 0.678 and round(row.of_groups, 3) == 0.642
    arm = {
        "fine_grained": scores(0.676, 550),
        "instruction_following": scores(0.738, 489),
        "document": scores(0.524, 460),
    }
    row = GroupedRow(world="", agent="", groups=arm, is_of_groups=True)
    assert round(row.overall, 3) == 0.646 and round(row.of_items, 3) == 0.650


def first_one():
    """Returns an agent that prefers whatever comes first."""
    return ScriptAgent(("<think>-</think><answer>Overall Judgment: Answer 1 is better.</answer>",))


@pytest.fixture
def rewardbench(tmp_path):
    folder = tmp_path / "bench"
    folder.mkdir()
    Image.new("RGB", (60, 40), (200, 20, 20)).save(folder / "a.png")
    rows = [
        {"id": each, "query": each, "response": ["Two.", "Three."], "human_ranking": [1, 0], "image": "a.png"}
        for each in GROUPS
    ]
    (folder / "vl_rewardbench.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"VLM/RewardJudging-v0:dataset=vl_rewardbench,folder={folder},prompt_format=direct"


def test_groups_and_orders_of_a_copy_of_vl_rewardbench(tmp_path, rewardbench, capsys):
    worlds = ("--world", rewardbench, "--world", f"{rewardbench},reverse_order=True")
    words = ["evaluate", f"{HERE}:first_one", *worlds, "--out", str(tmp_path / "board")]
    assert main(words) == 0
    board = Board(tmp_path / "board")
    rows = {(row.world, row.agent): row for row in grouped_rows(board.episodes(), board.record["worlds"])}
    forward, reverse = (row for (_, agent), row in rows.items() if agent.endswith("first_one"))
    assert {name: len(each) for name, each in forward.groups.items()} == {
        "hallucination": 2,
        "reasoning": 1,
        "general": 1,
    }
    assert forward.overall + reverse.overall == 1.0 and forward.both_orders == reverse.both_orders == 0.0
    oracle = [row for (_, agent), row in rows.items() if agent == "oracle"]
    assert [(row.overall, row.both_orders) for row in oracle] == [(1.0, 1.0)] * 2
    assert "right in both orders" in capsys.readouterr().out


def test_tracks_are_averaged_and_other_worlds_have_no_groups(tmp_path, capsys):
    world = "VLM/RewardJudging-v0:tracks=instruction_following,num_candidates=1"
    words = ["--world", world, "--world", "VLM/FrozenLake-v0:size=3", "--episodes", "2", "--no-references"]
    assert main(["evaluate", "oracle", *words, "--out", str(tmp_path / "board")]) == 0
    board = Board(tmp_path / "board")
    (row,) = grouped_rows(board.episodes(), board.record["worlds"])
    assert dict(row.groups) == {"instruction_following": [1.0, 1.0]} and row.both_orders is None
    assert grouped_text([row]) in capsys.readouterr().out
    assert grouped_text([]) == ""


def test_episodes_that_ended_with_an_error_count_in_nothing():
    world = {"label": "VLM/RewardJudging-v0", "env_id": "VLM/RewardJudging-v0", "kwargs": {}}
    line = {"world": world["label"], "agent": "a", "seed": 1, "repeat": 0, "success": True, "error": None}
    lines = [line | {"metrics": {"score_document": 1.0}}, line | {"seed": 2, "error": "lost", "metrics": {}}]
    (row,) = grouped_rows(lines, [world])
    assert dict(row.groups) == {"document": [1.0]}
    assert grouped_rows(lines[1:], [world]) == []
