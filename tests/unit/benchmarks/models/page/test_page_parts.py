"""What the page of a board is made of: columns, pairs, graphs, gaps, and files of episodes."""

import itertools
import json
import re
import shutil
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.models.board.board import Board
from benchmarks.models.measures.comparisons import overall
from benchmarks.models.measures.measures import Row, pairs, rows
from benchmarks.models.measures.perception_gaps import perception_gaps
from benchmarks.models.page import page_tables
from benchmarks.models.page.board_page import build_page, gap_parts, lede, play_command
from benchmarks.models.page.page_episodes import outlines
from benchmarks.models.page.page_tables import columns, matrix, signed_points, written
from benchmarks.models.page.scatter import HEIGHT_PX, WIDTH_PX, scatter
from tests.unit.benchmarks.models.made import episode
from tests.unit.benchmarks.models.page.made import LAKE, MODEL, WORLDS


def payload(path):
    text = re.search(r'id="payload">(.*?)</script>', path.read_text(encoding="utf-8"), re.DOTALL)[1]
    return json.loads(text)


def loaded(path):
    """The content of a file of episodes: the second argument of its one call."""
    return json.loads(re.fullmatch(r"loadEpisodes\(\d+,(.*)\);\n", path.read_text(encoding="ascii"))[1])


def played(agent, outcomes, **told):
    return [episode(agent, seed, success, **told) for seed, success in enumerate(outcomes)]


def test_every_measure_of_a_row_is_shown_once():
    [row] = rows(played("A", [True, False], usd=0.5, tokens=100.0, metrics={"steps": 3.0}))
    titles = [column.title for column in columns([row])]
    assert len(titles) == len(set(titles))
    assert {"steps", "USD", "USD / success", "reward"} <= set(titles)


def test_every_field_of_a_row_has_a_column_or_is_shown_in_another_way():
    table = tomllib.loads((Path(page_tables.__file__).parent / "measures.toml").read_text(encoding="utf-8"))
    elsewhere = {"agent", "world", "view", "num_successes", "interval", "mistakes", "num_asked", "models", "addresses"}
    assert {each.name for each in fields(Row)} <= {*table["measures"], *table["families"], *elsewhere}


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


def test_names_of_agents_that_solve_nothing_do_not_stand_on_each_other():
    costs = {"a long name of a model": 100.0, "another long name": 140.0, "a third model": 300.0, "random": None}
    rows_ = rows([each for name, tokens in costs.items() for each in played(name, [False] * 4, tokens=tokens)])
    marks = scatter(rows_).marks
    boxes = []
    for mark in marks:
        width = 6.5 * len(mark.label)
        left = 500 - width if mark.x is None else mark.x - 10 - width if mark.is_flipped else mark.x + 10
        boxes.append((left, left + width, mark.name_y - 9, mark.name_y + 2))
    for one, other in itertools.combinations(boxes, 2):
        is_beside = one[1] <= other[0] or other[1] <= one[0]
        assert is_beside or one[3] <= other[2] or other[3] <= one[2]


def test_gaps_stand_under_the_world_of_the_picture():
    worlds = [
        {"label": LAKE, "env_id": LAKE, "kwargs": {}, "split": "test"},
        {"label": f"{LAKE}:obs_mode=text", "env_id": LAKE, "kwargs": {"obs_mode": "text"}, "split": "test"},
    ]
    seen, told = (
        [{**each, "start_state_hash": f"h{each['seed']}"} for each in played("A", [solved] * 12, world=world["label"])]
        for solved, world in zip((False, True), worlds, strict=True)
    )
    [(world, [row])] = gap_parts(perception_gaps([*seen, *told], worlds)).items()
    assert world == LAKE and row["is_first"]
    assert (row["points"], row["view"], row["verdict"]) == ("+100", "text alone", "better")
    mark, low, high = row["marks"]
    assert 50 < low <= mark == 100 and high == pytest.approx(100)


def test_every_episode_has_its_turns_in_a_file_that_the_page_loads(board, monkeypatch, tmp_path):
    shutil.copytree(board, tmp_path, dirs_exist_ok=True)
    monkeypatch.setattr("benchmarks.models.page.page_episodes.EPISODES_PER_FILE", 5)
    page = payload(build_page(tmp_path))
    reader = Board(board)
    recorded = reader.episodes()
    files = [loaded(path) for path in sorted((tmp_path / "episodes").iterdir())]
    courses = [course for file in files for course in file["episodes"]]
    assert len(courses) == len(recorded) == 32
    for label in page["labels"]:
        assert len(label["episodes"]) == 4
        for outline in label["episodes"]:
            episode, course = recorded[outline["place"]], courses[outline["place"]]
            assert (episode["agent"], episode["seed"]) == (label["agent"], outline["seed"])
            assert len(course["turns"]) == len(episode["turns"]) == outline["num_turns"]
    assert "data:image" not in json.dumps(page["labels"])


def test_a_grown_board_leaves_earlier_files_alone_and_a_shrunk_one_no_leftovers(board, monkeypatch, tmp_path):
    shutil.copytree(board, tmp_path, dirs_exist_ok=True)
    monkeypatch.setattr("benchmarks.models.page.page_episodes.EPISODES_PER_FILE", 8)
    lines = (tmp_path / "episodes.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "episodes.jsonl").write_bytes(b"".join(lines[:20]))
    build_page(tmp_path)
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "episodes").iterdir()}
    (tmp_path / "episodes.jsonl").write_bytes(b"".join(lines))
    build_page(tmp_path)
    after = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "episodes").iterdir()}
    assert sorted(before) == ["0000.js", "0001.js", "0002.js"] and sorted(after) == [*sorted(before), "0003.js"]
    assert [name for name in before if after[name] == before[name]] == ["0000.js", "0001.js"]
    (tmp_path / "episodes.jsonl").write_bytes(b"".join(lines[:5]))
    build_page(tmp_path)
    assert [path.name for path in (tmp_path / "episodes").iterdir()] == ["0000.js"]


def test_a_single_file_holds_all_turns_and_images(board, tmp_path, capsys):
    shutil.copytree(board, tmp_path, dirs_exist_ok=True)
    assert main(["page", str(tmp_path), "--single-file"]) == 0
    page = payload(tmp_path / "index.html")
    assert sum(course is not None for file in page["files"] for course in file["episodes"]) == 32
    assert all(uri.startswith("data:image/png") for uri in page["images"].values())
    assert not (tmp_path / "episodes").exists()
    capsys.readouterr()
    before = (tmp_path / "index.html").read_bytes()
    assert main(["page", str(tmp_path), "--single-file", "--max-megabytes", "0.01"]) == 2
    error = capsys.readouterr().err
    assert "--single-file" in error and "--max-megabytes" in error
    told_mb = float(re.search(r"about ([\d.]+) MB", error)[1])
    assert told_mb == pytest.approx(len(before) / 1e6, rel=0.3, abs=0.15)
    assert (tmp_path / "index.html").read_bytes() == before


def test_a_thousand_episodes_have_an_index_of_a_megabyte_at_most(board):
    episodes = Board(board).episodes()
    many = [{**episodes[index % len(episodes)], "seed": 10**9 + index} for index in range(1024)]
    order = [(agent, world) for world in WORLDS for agent in (MODEL, "random", "lazy", "oracle")]
    assert len(json.dumps(outlines(many, order))) < 400_000  # the rest of the page has less than half


def test_a_board_without_episodes_has_a_page(board, tmp_path):
    (tmp_path / "board.json").write_bytes((board / "board.json").read_bytes())
    assert "No episode has been played yet" in build_page(tmp_path).read_text(encoding="utf-8")
    assert not (tmp_path / "episodes").exists()


def test_the_command_writes_the_page_and_a_folder_without_a_board_is_told(board, tmp_path, capsys):
    page = board / "index.html"
    page.unlink()
    assert main(["page", str(board)]) == 0
    assert str(page) in capsys.readouterr().out and page.is_file()
    assert main(["page", str(tmp_path)]) == 2
    assert "Expected a board" in capsys.readouterr().err


def test_a_run_and_an_interrupted_one_leave_a_page(tmp_path, monkeypatch, capsys):
    words = ["run", "--world", LAKE, "--episodes", "2", "--no-references", "--agent", "random"]
    main([*words, "--out", str(tmp_path / "whole")])
    assert payload(tmp_path / "whole" / "index.html")["labels"][0]["num_recorded"] == 2

    def interrupted(run, **kwargs):
        run.board.close()
        raise KeyboardInterrupt

    monkeypatch.setattr("benchmarks.models.play.playing.BoardRun.run", interrupted)
    main([*words, "--out", str(tmp_path / "cut")])
    assert (tmp_path / "cut" / "index.html").is_file()
    capsys.readouterr()


def test_the_first_sentence_compares_only_agents_of_the_same_worlds():
    def table(*rates):
        return rows(
            [episode(agent, seed, seed < 8 * rate, world=world) for agent, world, rate in rates for seed in range(8)]
        )

    alike = table(("a", "A", 0.5), ("a", "B", 0.25), ("b", "A", 0.5), ("b", "B", 0.75), ("lazy", "A", 0.125))
    assert lede(alike, ["a", "b"]) == "Of 2 agents b solves the most: 62.5% of the levels, on average of 2 worlds."
    apart = table(("a", "A", 0.875), ("b", "A", 0.5), ("b", "VLM/B-v0:size=4,x=1", 0.75), ("random", "A", 0.25))
    assert lede(apart, ["a", "b"]) == "Most solved: in A a with 87.5%; in B-v0 b with 75%."
    alone = table(("a", "A", 0.5), ("random", "A", 0.25))
    assert lede(alone, ["a"]) == "a solves 50% of the levels; random 25%."
    assert lede(table(("random", "A", 0.25)), []) == ""
    tied = table(("a", "A", 0.5), ("b", "A", 0.5), ("c", "A", 0.25), ("d", "A", 0.5))
    assert lede(tied, ["a", "b", "c", "d"]) == "Of 4 agents a, b and d solve the most: 50% of the levels."
    tied_apart = table(("a", "A", 0.5), ("b", "A", 0.5), ("b", "B", 0.5))
    assert lede(tied_apart, ["a", "b"]) == "Most solved: in A a and b with 50%; in B b with 50%."


def test_the_first_sentence_praises_nobody_below_lazy():
    def table(**rates):
        return rows([episode(agent, seed, seed < 8 * rate) for agent, rate in rates.items() for seed in range(8)])

    below = lede(table(a=0.25, b=0.125, lazy=0.5), ["a", "b"])
    assert "most" not in below and "less than lazy in what it has played: 25% against 50%" in below
    assert "less than lazy" in lede(table(a=0.25, lazy=0.5), ["a"])
    assert "most" in lede(table(a=0.5, b=0.125, lazy=0.5), ["a", "b"])


def test_the_first_sentence_praises_nobody_below_lazy_in_the_only_world_that_lazy_played():
    def said(*rates):
        table = [episode(agent, n, n < 8 * rate, world=world) for agent, world, rate in rates for n in range(8)]
        return lede(rows(table), [agent for agent in ("a", "b") if any(agent == name for name, _, _ in rates)])

    worlds = ("a", "A", 0.125), ("a", "B", 1.0), ("lazy", "A", 0.5)
    for others in ((), (("b", "A", 0.0), ("b", "B", 0.25))):
        sentence = said(*worlds, *others)
        assert "most" not in sentence and sentence.endswith(
            "but less than lazy in what it has played: 12.5% against 50%."
        )
    assert said(*worlds, ("b", "C", 1.0)) == "Most solved: in B a with 100%; in C b with 100%."


def test_the_first_sentence_praises_nobody_who_solves_nothing_or_no_more_than_random():
    def said(**rates):
        table = [episode(agent, seed, seed < 8 * rate) for agent, rate in rates.items() for seed in range(8)]
        return lede(rows(table), [agent for agent in rates if agent in "ab"])

    assert said(a=0.0, b=0.0) == said(a=0.0, b=0.0, random=0.0, oracle=1.0) == "No agent solves any level."
    assert said(a=0.25, b=0.0, random=0.25).startswith("a solves 25% of the levels, but no more than random")
    assert "most" in said(a=0.25, b=0.0, random=0.125)


def test_the_first_sentence_names_agents_that_may_be_as_good():
    def said(*rates):
        played_ = [episode(agent, seed, seed < 8 * rate) for agent, rate in rates for seed in range(8)]
        return lede(rows(played_), [agent for agent, _ in rates], overall(played_))

    assert said(("a", 0.5), ("b", 0.375)).endswith("The difference from b may be chance.")
    assert "chance" not in said(("a", 1.0), ("b", 0.0))


def test_a_pair_names_the_test_and_the_family_that_it_was_corrected_in():
    def details(first, second, **facts):
        played_ = [
            episode(agent, seed, seed < n, **facts) for agent, n in ((first, 6), (second, 1)) for seed in range(8)
        ]
        return matrix([first, second], pairs(played_))[0][1].details

    assert "McNemar" in details("a", "b") and "contestants" in details("a", "b")
    assert "McNemar" not in details("a", "b", cluster="image") and "sign-flip" in details("a", "b", cluster="image")
    assert "reference" in details("a", "lazy")
    assert "bootstrap" not in details("a", "b")


def test_a_level_is_played_with_the_settings_of_its_world():
    kwargs = {"dim_room": [7, 7], "obs_mode": "image+text"}
    world = {"env_id": "VLM/Sokoban-v0", "kwargs": kwargs, "split": "test"}
    assert play_command(world) == (
        "vlm-envs play VLM/Sokoban-v0 --set 'dim_room=(7, 7)' --set obs_mode=image+text --set split=test"
    )
    assert play_command({**world, "adapted": {}}) == ""
