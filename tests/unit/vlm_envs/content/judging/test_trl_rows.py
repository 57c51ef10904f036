"""Preference rows with their image in `images`, as TRL has them, and those that have something else to show."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic", reason="needs pydantic: pip install '.[tools]'")
pytest.importorskip("pysbd", reason="needs pysbd: pip install '.[tools]'")

from tests.unit.vlm_envs.content.judging.test_judging_datasets import png
from vlm_envs.content.judging.judging_datasets import judging_dataset
from vlm_envs.errors import ConfigError
from vlm_envs.qa.sample import Sample

ROW = {"prompt": "What animal is it?", "chosen": "A cat.", "rejected": "A dog."}
CONTENT = png(200)


def text_part(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def said(role: str, content: Any) -> list[dict[str, Any]]:
    return [{"role": role, "content": content}]


MESSAGES = {
    "prompt": said("user", [{"type": "image"}, text_part("What animal is it?")]),
    "chosen": said("assistant", [text_part("A cat.")]),
    "rejected": said("assistant", "A dog."),
}


def only(folder: Path, row: dict[str, Any], *, is_table: bool = False) -> Sample:
    (folder / "cat.png").write_bytes(CONTENT)
    if is_table:
        pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow: pip install '.[parquet]'")
        pytest.importorskip("pyarrow.parquet").write_table(pyarrow.Table.from_pylist([row]), folder / "pairs.parquet")
    else:
        (folder / "pairs.jsonl").write_text(json.dumps(row))
    source = judging_dataset("pairs", folder, is_benchmark=True)
    (sample_id,) = source.ids("test")
    return source.find(sample_id)


def shade(sample: Sample) -> list[int]:
    (image,) = sample.images
    return [int(value) for value in image.picture().pixels[0, 0]]


@pytest.mark.parametrize(
    "image",
    [
        {"images": ["cat.png"]},
        {"images": "cat.png"},
        {"images": [{"path": "cat.png"}]},
        {"images": [{"path": "cat.png", "bytes": None}]},
        {"images": [{"bytes": base64.b64encode(CONTENT).decode()}]},
        {"images": [f"data:image/png;base64,{base64.b64encode(CONTENT).decode()}"]},
        {"image": ["cat.png"]},
        {"image": {"path": "cat.png"}},
        {"image": None, "images": ["cat.png"]},
        {"image": "", "images": ["cat.png"]},
        {"image": "cat.png", "images": ["cat.png"]},
    ],
)
def test_one_image_is_shown(tmp_path, image):
    assert shade(only(tmp_path, ROW | image)) == [200, 0, 0]


@pytest.mark.parametrize(
    "images", [[{"bytes": CONTENT, "path": None}], [{"bytes": None, "path": "cat.png"}], [CONTENT], ["cat.png"]]
)
def test_one_image_of_a_table_is_shown(tmp_path, images):
    assert shade(only(tmp_path, ROW | {"images": images}, is_table=True)) == [200, 0, 0]


@pytest.mark.parametrize("images", [None, []])
def test_rows_without_an_image_have_none(tmp_path, images):
    assert only(tmp_path, ROW | {"images": images}).images == ()


@pytest.mark.parametrize("is_table", [False, True])
def test_messages_are_read_as_their_texts(tmp_path, is_table):
    row = MESSAGES | {"images": ["cat.png"]}
    if is_table:
        row |= {"images": [{"bytes": CONTENT, "path": None}], "rejected": said("assistant", [text_part("A dog.")])}
    sample = only(tmp_path, row, is_table=is_table)
    assert "What animal is it?" in sample.question and shade(sample) == [200, 0, 0]
    assert {text for _, text in sample.texts} == {"A cat.", "A dog."}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"images": ["cat.png", "cat.png"]}, "expected one image"),
        ({"image": "cat.png", "images": ["cat.png", "dog.png"]}, "expected one image"),
        ({"image": ""}, "expected the name or bytes of an image as 'image'; got ''"),
        ({"chosen": "A <image>.", "images": ["cat.png"]}, "a placeholder <image> in an answer"),
        ({"images": [7]}, "expected the name or bytes of an image as 'images'"),
        ({"images": [{"path": None}]}, "expected the name or bytes of an image as 'images'"),
        ({"prompt": "<image>What is it?"}, "1 placeholders <image> for 0 images"),
        ({"prompt": "<image><image>What differs?", "images": ["cat.png"]}, "2 placeholders <image> for 1 images"),
        ({"prompt": MESSAGES["prompt"]}, "1 placeholders <image> for 0 images"),
        ({"prompt": [*said("user", "a"), *said("assistant", "b")]}, "a text or one message of user as 'prompt'"),
        ({"chosen": said("user", "A cat.")}, "expected a text or one message of assistant as 'chosen'"),
        ({"prompt": said("user", [{"type": "video"}])}, "expected parts that are texts or images in 'prompt'"),
        ({"videos": ["a.mp4"]}, "the row has `videos`"),
        ({"prompt": "<video>What happens?"}, "the placeholder <video>"),
        ({"objects": {"bbox": [[1, 2, 3, 4]]}, "chosen": "<bbox>"}, "`objects` and the placeholder <bbox>"),
    ],
)
def test_rows_that_would_lose_something_are_broken(tmp_path, changes, reason):
    with pytest.raises(ConfigError, match=rf"pairs.jsonl, line 1: .*{reason}"):
        only(tmp_path, ROW | changes)


@pytest.mark.parametrize("images", [["cat.png"], [{"path": "cat.png"}]])
def test_judged_rows_may_have_a_list_of_one_image(tmp_path, images):
    (tmp_path / "cat.png").write_bytes(CONTENT)
    row = {"id": 1, "track": "fine_grained", "question": "q", "responses": ["a", "b"], "answer": 1, "images": images}
    (tmp_path / "judged.jsonl").write_text(json.dumps(row))
    source = judging_dataset("judged", tmp_path, is_benchmark=True)
    (sample_id,) = source.ids("test")
    assert shade(source.find(sample_id)) == [200, 0, 0]


JUDGED = {"id": 1, "track": "fine_grained", "question": "<image>What?", "responses": ["a", "b"], "answer": 1}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"videos": ["a.mp4"]}, "the row has `videos`"),
        ({"question": "<video>What happens?"}, "the placeholder <video>"),
        ({"responses": ["a", "<ref-object>"]}, "the placeholder <ref-object>"),
        ({"image": None}, "there are 1 placeholders <image> for 0 images"),
    ],
)
def test_judged_rows_that_would_lose_something_are_broken(tmp_path, changes, reason):
    (tmp_path / "judged.jsonl").write_text(json.dumps(JUDGED | {"image": "cat.png"} | changes))
    with pytest.raises(ConfigError, match=f"judged.jsonl, line 1: .*{reason}"):
        judging_dataset("judged", tmp_path, is_benchmark=True)


def test_judged_rows_are_shown_without_the_placeholder_of_their_image(tmp_path):
    (tmp_path / "cat.png").write_bytes(CONTENT)
    (tmp_path / "judged.jsonl").write_text(json.dumps(JUDGED | {"image": "cat.png"}))
    source = judging_dataset("judged", tmp_path, is_benchmark=True)
    sample = source.find(source.ids("test")[0])
    assert shade(sample) == [200, 0, 0] and "<image>" not in sample.question


def test_html_in_an_answer_is_no_placeholder(tmp_path):
    sample = only(tmp_path, ROW | {"chosen": "Use `<video>`."})
    assert {text for _, text in sample.texts} == {"Use `<video>`.", "A dog."}
