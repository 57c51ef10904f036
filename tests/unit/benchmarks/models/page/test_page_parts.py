"""What the page of a board is made of: columns, pairs, graphs, gaps, and as many episodes as fit."""

import itertools
import json
import re
from dataclasses import dataclass, field, fields

import pytest

from benchmarks.__main__ import main
from benchmarks.models.board.board import Board
from benchmarks.models.measures.measures import Row, pairs, rows
from benchmarks.models.measures.perception import perception_gaps
from benchmarks.models.page.columns import columns, written
from benchmarks.models.page.episodes import board_browser
from benchmarks.models.page.gaps import gap_parts
from benchmarks.models.page.matrix import matrix, signed_points
from benchmarks.models.page.page import _lede, build_page
from benchmarks.models.page.scatter import HEIGHT_PX, WIDTH_PX, scatter
from tests.unit.benchmarks.models.made import episode
from tests.unit.benchmarks.models.page.made import LAKE, MODEL, WORLDS


def payload(path):
    text = re.search(r'id="payload">(.*?)</script>', path.read_text(encoding="utf-8"), re.DOTALL)[1]
    return json.loads(text)


def played(agent, outcomes, **told):
    return [episode(agent, seed, success, **told) for seed, success in enumerate(outcomes)]


def test_every_measure_of_a_row_is_shown_once_those_without_a_name_here_too():
    @dataclass(frozen=True, kw_only=True)
    class Richer(Row):
        brand_new_rate: float = 0.25
        judges: dict = field(default_factory=lambda: {"box_iou": 0.5})

    [row] = rows(played("A", [True, False], usd=0.5, tokens=100.0, metrics={"steps": 3.0}))
    titles = [column.title for column in columns([row])]
    assert len(titles) == len(set(titles))
    assert {"steps", "USD", "USD / success", "reward"} <= set(titles)
    richer = Richer(**{each.name: getattr(row, each.name) for each in fields(Row)})
    found = {column.title: column.texts for column in columns([richer])}
    assert found["brand new"] == ["25%"] and found["judges box iou"] == ["0.5"]


def test_repeats_have_columns_but_for_one_of_them_which_is_the_success():
    repeated = [episode("A", 0, success, repeat=repeat) for repeat, success in enumerate([True, False])]
    found = {column.title: column.texts for column in columns(rows(repeated)) if column.title.startswith("pass")}
    assert found == {"pass@2": ["100%"], "pass^2": ["0%"]}


def test_what_nobody_knows_is_no_column_and_what_one_does_not_know_is_no_zero():
    table = rows([*played("A", [True, False], usd=0.5, tokens=100.0), *played("B", [True, True])])
    found = {column.title: column.texts for column in columns(table)}
    assert found["USD"] == ["1.00", ""] and "seconds" not in found
    assert "USD" not in {column.title for column in columns(table[1:])}
    assert [written(value, "usd") for value in (0.00042, 0.126, 12.5)] == ["4.2e−4", "0.126", "12.50"]


def test_a_pair_is_the_same_from_both_sides_with_the_sign_turned():
    told = [*played("A", [True] * 12 + [False] * 4), *played("B", [False] * 15 + [True])]
    [[none, over], [under, _]] = matrix(["A", "B"], pairs(told))
    assert none is None
    assert (over.text, under.text) == ("+68.8", "−68.8")
    assert (over.verdict, under.verdict) == ("better", "worse")
    assert "Of 16 episodes on the same levels A alone solved 12, B alone 1, both 0, neither 3" in over.details
    assert "B alone solved 1, A alone 12" in under.details
    gain = re.compile(r"Reward (\S+) \(95% (\S+) to (\S+),")
    number = [[float(each.replace("−", "-")) for each in gain.search(cell.details).groups()] for cell in (over, under)]
    assert number[1] == [-number[0][0], -number[0][2], -number[0][1]] and number[0][0] > 0
    [[_, chance], _] = matrix(["A", "B"], pairs([*played("A", [True, False]), *played("B", [False, False])]))
    assert chance.verdict == "" and chance.text == "+50"
    assert [signed_points(points) for points in (-0.04, 12.0, -3.26)] == ["0", "+12", "−3.3"]


def test_the_graph_has_dollars_where_all_have_a_price_and_else_tokens():
    cheap, dear = (
        played("cheap", [True, False], usd=0.01, tokens=100.0),
        played("dear", [True, True], usd=1.0, tokens=9e3),
    )
    free = played("random", [False, False])
    graph = scatter(rows([*cheap, *dear, *free]))
    assert graph.unit == "USD an episode"
    mark = {each.name: each for each in graph.marks}
    assert mark["random"].x is None and mark["cheap"].x < mark["dear"].x
    assert mark["dear"].y < mark["cheap"].y < mark["random"].y
    assert all(0 < each.high_y <= each.y <= each.low_y < HEIGHT_PX for each in graph.marks)
    assert all(0 < place < WIDTH_PX for _, place in graph.x_ticks) and len(graph.x_ticks) >= 2
    unpriced = scatter(rows([*cheap, *played("local", [True, True], tokens=500.0)]))
    assert unpriced.unit == "tokens an episode"
    assert scatter(rows(free)) is None


def test_names_in_the_graph_do_not_stand_on_each_other():
    crowd = [each for i in range(9) for each in played(f"agent {i}", [i % 2 == 0], tokens=100.0 + i)]
    marks = scatter(rows(crowd)).marks
    for flipped in (False, True):
        ys = sorted(mark.name_y for mark in marks if mark.is_flipped == flipped)
        assert all(later - earlier >= 14 for earlier, later in itertools.pairwise(ys))
        assert all(0 < y < HEIGHT_PX for y in ys)


def test_gaps_stand_under_the_world_of_the_picture():
    worlds = [
        {"label": LAKE, "env_id": LAKE, "kwargs": {}, "split": "test"},
        {"label": f"{LAKE}:obs_mode=text", "env_id": LAKE, "kwargs": {"obs_mode": "text"}, "split": "test"},
    ]
    seen = played("A", [False] * 12, world=LAKE, start_state_hash="h")
    told = played("A", [True] * 12, world=worlds[1]["label"], start_state_hash="h")
    [(world, [row])] = gap_parts(perception_gaps([*seen, *told], worlds)).items()
    assert world == LAKE and row.is_first
    assert (row.points, row.view, row.verdict) == ("+100", "words alone", "better")
    mark, low, high = row.marks
    assert 50 < low <= mark == 100 and high == pytest.approx(100)


def test_a_page_that_would_be_too_large_keeps_whole_levels_and_all_outcomes(board):
    reader = Board(board)
    episodes = reader.episodes()
    order = [(agent, world) for world in WORLDS for agent in (MODEL, "random", "lazy", "oracle")]
    whole = board_browser(reader, episodes, order, 10**9)
    assert [(each["agent"], each["world"]) for each in whole["labels"]] == order
    cut = board_browser(reader, episodes, order, 1)
    for label in cut["labels"]:
        assert len(label["episodes"]) == 4
        assert sum(bool(each["turns"]) for each in label["episodes"]) == 1
    for world in WORLDS:
        shown = [
            [bool(each["turns"]) for each in label["episodes"]] for label in cut["labels"] if label["world"] == world
        ]
        assert all(each == shown[0] for each in shown)
    assert len(json.dumps(cut)) < len(json.dumps(whole)) / 2
    assert cut["images"].keys() < whole["images"].keys()


def test_a_lost_picture_is_said_and_a_board_without_episodes_has_a_page(board, tmp_path):
    (tmp_path / "board.json").write_bytes((board / "board.json").read_bytes())
    assert "No episode has been played yet" in build_page(tmp_path).read_text(encoding="utf-8")
    (tmp_path / "episodes.jsonl").write_bytes((board / "episodes.jsonl").read_bytes())
    images = payload(build_page(tmp_path))["images"]
    assert images and set(images.values()) == {None}


def test_the_command_writes_the_page_and_a_folder_without_a_board_is_told(board, tmp_path, capsys):
    page = board / "index.html"
    page.unlink()
    assert main(["page", str(board), "--max-megabytes", "2"]) == 0
    assert str(page) in capsys.readouterr().out and page.stat().st_size < 2_600_000
    assert main(["page", str(tmp_path)]) == 2
    assert "Expected a board" in capsys.readouterr().err


def test_a_run_and_an_interrupted_one_leave_a_page(tmp_path, monkeypatch, capsys):
    words = ["run", "--world", LAKE, "--episodes", "2", "--no-references", "--agent", "random"]
    main([*words, "--out", str(tmp_path / "whole")])
    assert payload(tmp_path / "whole" / "index.html")["labels"][0]["num_recorded"] == 2

    def interrupted(run, **kwargs):
        run.board.close()
        raise KeyboardInterrupt

    monkeypatch.setattr("benchmarks.models.play.run.BoardRun.run", interrupted)
    main([*words, "--out", str(tmp_path / "cut")])
    assert (tmp_path / "cut" / "index.html").is_file()
    capsys.readouterr()


def test_the_first_sentence_compares_only_agents_of_the_same_worlds():
    def table(*rates):
        return rows(
            [episode(agent, seed, seed < 8 * rate, world=world) for agent, world, rate in rates for seed in range(8)]
        )

    alike = table(("a", "A", 0.5), ("a", "B", 0.25), ("b", "A", 0.5), ("b", "B", 0.75), ("lazy", "A", 0.125))
    assert _lede(alike, ["a", "b"]) == "Of 2 agents b solves the most: 62.5% of the levels, on average of 2 worlds."
    apart = table(("a", "A", 0.875), ("b", "A", 0.5), ("b", "VLM/B-v0:size=4,x=1", 0.75), ("random", "A", 0.25))
    assert _lede(apart, ["a", "b"]) == "Most solved: in A a with 87.5%; in B-v0 b with 75%."
    alone = table(("a", "A", 0.5), ("random", "A", 0.25))
    assert _lede(alone, ["a"]) == "a solves 50% of the levels; random 25%."
    assert _lede(table(("random", "A", 0.25)), []) == ""
    tied = table(("a", "A", 0.5), ("b", "A", 0.5), ("c", "A", 0.25), ("d", "A", 0.5))
    assert _lede(tied, ["a", "b", "c", "d"]) == "Of 4 agents a, b and d solve the most: 50% of the levels."
    tied_apart = table(("a", "A", 0.5), ("b", "A", 0.5), ("b", "B", 0.5))
    assert _lede(tied_apart, ["a", "b"]) == "Most solved: in A a and b with 50%; in B b with 50%."
