"""A board on a dataset whose split holds fewer items than were asked for says so before it is played."""

import json

import pytest

pytest.importorskip("pydantic", reason="needs pydantic: pip install '.[tools]'")

from benchmarks.__main__ import main
from benchmarks.models.board.board_spec import WorldSpec
from benchmarks.models.play.contestants import few_items_lines
from tests.unit.vlm_envs.qa.datasets.test_layouts import picture, put


@pytest.fixture
def folder(tmp_path):
    rows = [{"image": f"{n}.png", "question": f"Q{n}?", "answer": "x"} for n in range(10)]
    for row in rows:
        put(tmp_path / row["image"], picture("PNG", size=(30, 30)))
    put(tmp_path / "questions.jsonl", "".join(map("{}\n".format, map(json.dumps, rows))).encode())
    return tmp_path


def world_of(folder, more=""):
    return f"VLM/ZoomQA-v0:dataset=image_folder,folder={folder},prompt_format=direct{more}"


@pytest.mark.parametrize("asked", [10, None])
def test_a_part_of_a_divided_dataset_is_reported_with_the_argument_that_plays_all(folder, asked):
    world = WorldSpec.parse(world_of(folder), "test", "lenient")
    count = world.num_levels
    assert count < 10
    (line,) = few_items_lines([world], asked)
    assert f"plays {count}" in line and "is_benchmark=True makes all" in line
    assert ("of 10" in line) == (asked == 10)


def test_nothing_is_reported_when_every_item_is_played(folder):
    whole = WorldSpec.parse(world_of(folder, ",is_benchmark=true"), "test", "lenient")
    assert few_items_lines([whole], 10) == few_items_lines([whole], None) == []
    assert "makes all" not in few_items_lines([whole], 11)[0]
    divided = WorldSpec.parse(world_of(folder), "test", "lenient")
    assert few_items_lines([divided], 1) == []
    assert few_items_lines([WorldSpec.parse("VLM/FrozenLake-v0", "test", "lenient")], None) == []


def test_the_command_says_so(folder, capsys):
    out = ["--no-references", "--out", str(folder / "board")]
    assert main(["run", "--agent", "random", "--world", world_of(folder), "--episodes", "10", *out]) == 0
    assert "of 10" in capsys.readouterr().err
