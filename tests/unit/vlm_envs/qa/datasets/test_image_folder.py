"""A folder of images with a table of questions, in each of its formats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic", reason="needs pydantic: pip install '.[tools]'")

import vlm_envs
from tests.unit.vlm_envs.qa.datasets.test_layouts import picture, put
from vlm_envs.errors import ConfigError
from vlm_envs.qa.datasets.dataset_source import DatasetSource
from vlm_envs.qa.datasets.image_datasets import dataset_source
from vlm_envs.responses.answers import score_answer
from vlm_envs.splits import SPLITS

CHOICE = {"image": "photos/my cat.JPG", "question": "Which animal is it?", "answer": "cat", "options": ["dog", "cat"]}
COUNT = {"image": "two.png", "question": "How many?", "answer": 2}
WORD = {"image": "two.png", "question": "What?", "answer": ["mug", "cup"], "category": "Things", "split": "val"}


def folder_of(path: Path, *rows: dict[str, Any], file: str = "questions.jsonl") -> Path:
    put(path / "photos" / "my cat.JPG", picture(size=(60, 40)))
    put(path / "two.png", picture("PNG", size=(50, 30)))
    lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
    put(path / file, lines if file.lower().endswith("jsonl") else [*rows])
    return path


def samples(source: DatasetSource) -> list[Any]:
    ids = (sample_id for split in SPLITS for sample_id in source.ids(split))
    return [source.find(sample_id) for sample_id in sorted(ids)]


@pytest.mark.parametrize("file", ["questions.jsonl", "questions.json", "questions.JSONL", "questions.JsonL"])
def test_rows_of_every_kind_are_read(tmp_path, file):
    source = dataset_source("image_folder", folder_of(tmp_path, CHOICE, COUNT, WORD, file=file))
    choice, count, word = samples(source)
    assert (choice.key.kind, choice.key.answers, choice.key.options) == ("choice", ("B",), ("dog", "cat"))
    assert (choice.images[0].width, choice.category) == (60, "image")
    assert (count.key.kind, score_answer("two", count.key), score_answer("3", count.key)) == ("number", 1.0, 0.0)
    assert (word.key.kind, score_answer("Cup.", word.key), word.category) == ("exact", 1.0, "things")
    assert source.ids("val")[-1] == "image_folder:3"
    assert source.split_of("image_folder:2") == dataset_source("image_folder", tmp_path).split_of("image_folder:2")


def test_a_table_of_a_spreadsheet_is_read(tmp_path):
    table = (
        "\ufeffimage,question,answer,A,B,C,options\r\n"
        'photos/my cat.JPG,"Which animal,\nif any?",B,dog,cat,,\r\n'
        "two.png,How many?,2,,,,\r\n"
        'two.png,Which?,mug,,,,"[""mug"", ""cup""]"\r\n'
    )
    put(folder_of(tmp_path) / "questions.csv", table.encode())
    (tmp_path / "questions.jsonl").unlink()
    first, second, third = samples(dataset_source("image_folder", tmp_path))
    assert (first.question, first.key.options) == ("Which animal,\nif any?", ("dog", "cat"))
    assert first.key.answers == ("B",)
    assert (second.key.kind, second.key.answers, third.key.answers) == ("number", ("2",), ("A",))


@pytest.mark.parametrize(
    ("changes", "question", "options", "answer"),
    [
        ({"question": "<image>\nWhich?"}, "Which?", ("dog", "cat"), "B"),
        ({"question": "Which?\nA. dog\nB. cat"}, "Which?", ("dog", "cat"), "B"),
        ({"question": "Which?\nA. cow\nB. cat"}, "Which?\nA. cow\nB. cat", ("dog", "cat"), "B"),
        ({"options": ["A. dog", "B. cat"], "answer": "B. cat"}, "Which animal is it?", ("dog", "cat"), "B"),
        ({"answer": "b) Cat"}, "Which animal is it?", ("dog", "cat"), "B"),
        ({"options": [1.0, 2.5], "answer": "(b) 2.50"}, "Which animal is it?", ("1", "2.5"), "B"),
        ({"options": [1.0, 2.5], "answer": 1.0}, "Which animal is it?", ("1", "2.5"), "A"),
        ({"options": ["1.0", "2.0"], "answer": "2"}, "Which animal is it?", ("1.0", "2.0"), "B"),
        ({"options": None, "A": 1.0, "B": 2.0, "C": float("nan"), "answer": 1}, "Which animal is it?", ("1", "2"), "A"),
        ({"image": None, "images": ["two.png"]}, "Which animal is it?", ("dog", "cat"), "B"),
    ],
)
def test_a_choice_is_read_as_users_write_it(tmp_path, changes, question, options, answer):
    (sample,) = samples(dataset_source("image_folder", folder_of(tmp_path, CHOICE | changes)))
    assert (sample.question, sample.key.options, sample.key.answers) == (question, options, (answer,))


def test_images_may_be_in_a_parquet_table(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow: pip install '.[parquet]'")
    parquet = pytest.importorskip("pyarrow.parquet")
    own = [{"bytes": picture(size=(60, 40 + n)), "path": None} for n in range(3)]
    rows = [{"image": image, "question": f"Q{n}?", "answer": float(n)} for n, image in enumerate(own)]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "questions.parquet", row_group_size=2)
    found = samples(dataset_source("image_folder", tmp_path))
    assert [each.images[0].picture().height for each in found] == [40, 41, 42]
    assert [each.key.answers for each in found] == [("0",), ("1",), ("2",)]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"image": None}, "expected the name of an image file in the folder as 'image'; got None"),
        ({"image": "cat.jpg"}, "expected the name of an image file in the folder as 'image'; got 'cat.jpg'"),
        ({"image": "../cat.jpg"}, "expected the name of an image file in the folder"),
        ({"question": "<video>What happens?"}, "the row has the placeholder <video>"),
        ({"question": "<image><image>Which?"}, "there are 2 placeholders <image> for 1 images"),
        ({"question": " "}, "expected a text as 'question'"),
        ({"answer": None}, "expected a text, a number, or a list of them as 'answer'"),
        ({"answer": []}, "expected a text, a number, or a list of them as 'answer'"),
        ({"answer": "cow"}, "expected a letter from A to B or the text of an option as 'answer'; got 'cow'"),
        ({"answer": ["cat", "dog"]}, "expected one answer of a row with options"),
        ({"options": ["cat", 3, None]}, "expected a list of texts as 'options'"),
        ({"options": None, "kind": "sum"}, "expected one of exact, number, semantic, anls, list as 'kind'; got 'sum'"),
        ({"split": "dev"}, "expected one of train, val, test as 'split'; got 'dev'"),
    ],
)
def test_a_broken_row_is_named_and_the_others_are_read(tmp_path, changes, reason):
    folder = folder_of(tmp_path, COUNT, CHOICE | changes)
    with pytest.warns(UserWarning, match="1 of 2 rows of image_folder"):
        source = dataset_source("image_folder", folder)
    (broken,) = source.broken_rows
    assert broken.startswith(f"questions.jsonl, line 2: {reason}")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (
            b"image,question,answer\ntwo.png,What?,a,b\n",
            "questions.csv, row 1: expected 3 cells",
        ),
        (b"image,question,answer\ntwo.png,\xff,a\n", "questions.csv as CSV"),
        (b'image,question,answer\ntwo.png,"What?,a\n', "questions.csv as CSV"),
        (b"image,question,answer\ntwo.png,What?," + b"a" * 131073, "field larger than field limit"),
    ],
)
def test_a_broken_table_is_named(tmp_path, content, reason):
    put(folder_of(tmp_path) / "questions.csv", content)
    (tmp_path / "questions.jsonl").unlink()
    with pytest.raises(ConfigError, match=reason):
        dataset_source("image_folder", tmp_path)


def test_a_folder_without_a_table_is_told_what_is_expected(tmp_path):
    with pytest.raises(ConfigError, match=r"one of questions.jsonl, .*questions.parquet, one question per row"):
        dataset_source("image_folder", tmp_path)


def test_a_world_asks_its_questions(tmp_path):
    folder = str(folder_of(tmp_path, CHOICE))
    kwargs = {"dataset": "image_folder", "folder": folder, "is_benchmark": True, "split": "test"}
    env = vlm_envs.make("VLM/ZoomQA-v0", prompt_format="direct", **kwargs)
    observation, _ = env.reset(seed=0)
    assert "Which animal is it?" in observation["text"] and "A. dog B. cat" in observation["text"]
    _, reward, terminated, _, info = env.step("<think>It purrs.</think><answer>B. cat</answer>")
    assert (reward, terminated, info["success"]) == (1.0, True, True)


@pytest.mark.parametrize(
    ("column", "meant"),
    [("choices", "options"), ("optoins", "options"), ("Kind", "kind"), ("spilt", "split"), ("kinds", "kind")],
)
def test_a_column_that_stands_for_another_breaks_its_row(tmp_path, column, meant):
    with pytest.warns(UserWarning, match=f"{column}.*{meant}"):
        source = dataset_source("image_folder", folder_of(tmp_path, COUNT, COUNT | {column: ["x", "y"]}))
    assert len(samples(source)) == 1


def test_options_in_lower_case_columns_break_their_row(tmp_path):
    with pytest.warns(UserWarning, match="Did you mean 'A'"):
        source = dataset_source("image_folder", folder_of(tmp_path, COUNT, COUNT | {"a": "cat", "b": "dog"}))
    assert len(samples(source)) == 1


def test_columns_that_are_not_read_are_named_once(tmp_path):
    others = dict.fromkeys(("x", "w", "a", "category_id", "subcategory"), 1)
    rows = [COUNT | others | {"question_id": n, "id": n, "choices": None} for n in range(3)]
    with pytest.warns(UserWarning) as warned:
        source = dataset_source("image_folder", folder_of(tmp_path, *rows))
    (said,) = (str(each.message) for each in warned)
    assert "'id'" in said and "'question_id'" in said and "choices" not in said
    assert len(samples(source)) == 3


@pytest.mark.parametrize("separator", [";", "\t"])
def test_a_csv_file_without_commas_is_reported_as_such(tmp_path, separator):
    table = f"image{separator}question{separator}answer\ntwo.png{separator}Q?{separator}2\n"
    put(folder_of(tmp_path) / "questions.csv", table.encode())
    (tmp_path / "questions.jsonl").unlink()
    with pytest.raises(ConfigError, match="comma"):
        dataset_source("image_folder", tmp_path)


def test_rows_of_ones_own_that_are_all_broken_are_not_called_an_incomplete_copy(tmp_path):
    with pytest.raises(ConfigError, match="'answer'") as caught:
        dataset_source("image_folder", folder_of(tmp_path, COUNT | {"answer": None}))
    assert "copy" not in str(caught.value)
