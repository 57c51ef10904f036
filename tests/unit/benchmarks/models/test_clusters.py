"""Questions about the same image or document are no independent levels: in intervals, pairs, and gaps."""

from __future__ import annotations

import base64
import io
import json

import numpy as np
import pytest

pytest.importorskip("scipy", reason="needs scipy: pip install '.[records]'")

from PIL import Image

from agents.oracle import OracleAgent
from benchmarks.__main__ import main
from benchmarks.models.board.board import Board
from benchmarks.models.board.board_spec import WorldSpec
from benchmarks.models.cli.run_command import board_text
from benchmarks.models.measures.board_export import episode_rows
from benchmarks.models.measures.comparisons import overall
from benchmarks.models.measures.measures import pairs, rows
from benchmarks.models.measures.perception_gaps import perception_gaps
from tests.unit.benchmarks.models.made import episode
from tests.unit.benchmarks.models.playing import LAKE, contestant, lines_of, play
from vlm_envs.registration import make
from vlm_envs.statistics.success_rates import repeated_interval, wilson_interval

TURNS = 4
"""Orders in which HR-Bench asks each question."""


def hrbench(folder, num_questions=3):
    """Writes a copy of HR-Bench: `num_questions` questions in four orders each, two of them about one image."""
    folder.mkdir()
    table = ["index\tquestion\tanswer\tcategory\tA\tB\tC\tD\tcycle_category\timage"]
    for question in range(num_questions):
        file = io.BytesIO()
        Image.new("RGB", (40, 30), (60 * max(0, question - 1), 90, 20)).save(file, format="PNG")
        image = base64.b64encode(file.getvalue()).decode()
        for turn in range(TURNS):
            options = np.roll(["red", "blue", "green", "gray"], turn)
            cells = [question * TURNS + turn, f"Which color has thing {question}?", "ABCD"[turn], "single", *options]
            table.append("\t".join(map(str, [*cells, turn, image])))
    (folder / "hr_bench_4k.tsv").write_text("\n".join(table) + "\n")
    return f"VLM/ZoomQA-v0:dataset=hrbench,folder={folder}"


def test_orders_of_a_question_and_questions_about_one_image_are_a_cluster_on_the_board(tmp_path):
    world = hrbench(tmp_path / "copy")
    play(tmp_path / "board", [contestant(OracleAgent(), "A")], worlds=[WorldSpec.parse(world)], episodes=99)
    lines = lines_of(tmp_path / "board")
    sizes = [sum(line["cluster"] == cluster for line in lines) for cluster in {line["cluster"] for line in lines}]
    assert sorted(sizes) == [TURNS, 2 * TURNS]
    assert rows(lines)[0].interval == pytest.approx(repeated_interval([TURNS, 2 * TURNS], [TURNS, 2 * TURNS]))


def test_a_changed_cluster_is_found_and_a_missing_one_is_an_older_board(tmp_path):
    world = hrbench(tmp_path / "copy", num_questions=1)
    out = tmp_path / "board"
    play(out, [contestant(OracleAgent(), "A")], worlds=[WorldSpec.parse(world)], episodes=TURNS)
    board = Board(out)
    lines = board.lines()
    with board.writing():
        board.rewrite([{name: value for name, value in line.items() if name != "cluster"} for line in lines])
    assert main(["replay", str(out)]) == 0
    with board.writing():
        board.rewrite([{**line, "cluster": f"image-{number}"} for number, line in enumerate(lines)])
    assert main(["replay", str(out)]) == 1


def test_generated_levels_have_no_cluster(tmp_path):
    play(tmp_path / "board", [contestant(OracleAgent(), "A")], episodes=1)
    assert all("cluster" not in line for line in lines_of(tmp_path / "board"))
    assert "cluster" not in make(LAKE).reset(seed=0)[1]


def clustered(agent, solved, size=TURNS, **told):
    """Returns episodes; each run of `size` is about one image and has one outcome."""
    return [
        episode(agent, seed, solved[seed // size], cluster=f"image-{seed // size}", **told)
        for seed in range(size * len(solved))
    ]


def test_forty_questions_in_four_orders_tell_what_forty_levels_tell():
    solved = [question % 2 == 0 for question in range(40)]
    (row,) = rows(clustered("A", solved))
    assert (row.num_episodes, row.success) == (160, 0.5)
    assert row.interval == pytest.approx(wilson_interval(20, 40))
    (unknown,) = rows([{**each, "cluster": ""} for each in clustered("A", solved)])
    assert unknown.interval == pytest.approx(wilson_interval(80, 160)), "boards without clusters go by seed"


def test_pairs_flip_whole_clusters():
    played = [*clustered("A", [True] * 6), *clustered("B", [False] * 6)]
    (pair,) = pairs(played)
    assert pair.outcomes.num_only_before == 24
    assert pair.p_value == pair.reward.p_value == pytest.approx(2 / 2**6)


def test_a_cluster_that_one_of_two_boards_recorded_counts_for_the_pair():
    played = [*clustered("A", [True] * 6), *({**each, "cluster": ""} for each in clustered("B", [False] * 6))]
    assert pairs(played)[0].p_value == pytest.approx(2 / 2**6)
    assert pairs(played[::-1])[0].p_value == pytest.approx(2 / 2**6)


def test_gaps_flip_whole_clusters():
    worlds = [
        {"label": label, "env_id": "VLM/ZoomQA-v0", "split": "test", "kwargs": kwargs}
        for label, kwargs in (("VLM/ZoomQA-v0", {}), ("VLM/ZoomQA-v0:obs_mode=text", {"obs_mode": "text"}))
    ]
    seen, told = (clustered("A", [solved] * 5, world=worlds[solved]["label"]) for solved in (False, True))
    for each in (*seen, *told):
        each["start_state_hash"] = f"h{each['seed']}"
    (gap,) = perception_gaps([*seen, *told], worlds)
    assert gap.p_value == gap.reward.p_value == pytest.approx(2 / 2**5)
    assert gap.num_levels == 20


def repeated(agent, solved, size=TURNS, **told):
    """Returns episodes on generated levels; `size` seeds each give the same level and have one outcome."""
    return [
        episode(agent, seed, solved[seed // size], start_state_hash=f"level-{seed // size}", **told)
        for seed in range(size * len(solved))
    ]


def test_seeds_that_give_one_level_are_a_cluster_in_intervals_and_pairs():
    (row,) = rows(repeated("A", [question % 2 == 0 for question in range(40)]))
    assert (row.num_episodes, row.num_levels, row.success) == (160, 40, 0.5)
    assert row.interval == pytest.approx(wilson_interval(20, 40))
    (pair,) = pairs([*repeated("A", [True] * 6), *repeated("B", [False] * 6)])
    assert pair.outcomes.num_only_before == 24
    assert pair.p_value == pair.reward.p_value == pytest.approx(2 / 2**6)
    assert pair.outcomes.test != pairs([episode("A"), episode("B")])[0].outcomes.test


def test_levels_are_counted_only_where_seeds_share_one():
    assert rows([episode("A", seed, start_state_hash=f"h{seed}") for seed in range(3)])[0].num_levels is None
    repeats = [episode("A", seed, repeat=repeat, start_state_hash=f"h{seed}") for seed in range(3) for repeat in (0, 1)]
    assert rows(repeats)[0].num_levels is None


def test_a_board_of_seeds_that_share_levels_says_how_many_levels_it_has(tmp_path):
    play(tmp_path / "board", [contestant(OracleAgent(), "A")], episodes=3)
    board = Board(tmp_path / "board")
    assert len({line["start_state_hash"] for line in board.lines()}) == 2, "seeds 0 and 2 give the same lake"
    assert [row.num_levels for row in rows(board.lines())] == [2]
    heading, cells = (line.split("  ") for line in board_text(board).splitlines()[:2])
    assert "levels" in map(str.strip, heading) and "2" in map(str.strip, cells)
    assert len({row["cluster"] for row in episode_rows(board)}) == 2


def test_equal_levels_of_two_worlds_are_not_shared_content():
    same, other = (
        overall([*repeated("A", [True, False] * 8), *repeated("A", [True, False] * 8, world=world)])[0]
        for world in ("W", "V")
    )
    assert other.num_worlds == 2 and other.high - other.low < same.high - same.low


@pytest.mark.parametrize("kind", ["picture", "document"])
def test_judged_rows_share_their_picture_or_document(kind, tmp_path):
    pytest.importorskip("pysbd", reason="needs pysbd: pip install '.[tools]'")
    from vlm_envs.content.judging.judging_datasets import judging_dataset

    for name in ("a.png", "b.png"):
        Image.new("RGB", (30, 20), (9, 200 if name == "a.png" else 20, 9)).save(tmp_path / name)
    about = {
        "picture": lambda name: {"track": "fine_grained", "image": name},
        "document": lambda name: {"track": "document", "document": name[0], "pages": [name]},
    }[kind]
    judged = [
        {"id": number, "question": f"Question {number}", "responses": ["Two.", "Three."], "answer": 1, **about(name)}
        for number, name in enumerate(("a.png", "b.png", "a.png"))
    ]
    (tmp_path / "judged.jsonl").write_text("".join(json.dumps(row) + "\n" for row in judged))
    source = judging_dataset("judged", tmp_path, is_benchmark=True)
    first, other, again = (source.sample_at(index, "test").cluster for index in range(3))
    assert first == again != other and first.startswith("image" if kind == "picture" else "document")
