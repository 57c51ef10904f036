"""PixMo-Count and Video-R1 on tiny copies in their layouts: broken rows are named and counted, and end nothing."""

from __future__ import annotations

import io
import json
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pydantic", reason="needs pydantic: pip install '.[tools]'")

from PIL import Image

import vlm_envs
from agents.oracle import OracleAgent
from vlm_envs.errors import ConfigError, GenerationError
from vlm_envs.qa.datasets.dataset_source import DatasetSource
from vlm_envs.qa.datasets.image_datasets import dataset_source, video_source
from vlm_envs.qa.datasets.video_r1 import spread
from vlm_envs.responses.answers import score_answer


def picture(shade: int = 0, size: tuple[int, int] = (60, 40)) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", size, (shade % 256, 20, 20)).save(file, "PNG")
    return file.getvalue()


def put(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())


def lines(*rows: Any) -> bytes:
    return b"".join((row if isinstance(row, bytes) else json.dumps(row).encode()) + b"\n" for row in rows)


def quietly(source: Any, kind: str, folder: Path, **kwargs: Any) -> tuple[DatasetSource, list[str]]:
    """A source, and what it warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = source(kind, folder, **kwargs)
    return made, [str(each.message) for each in caught]


def sample_of(source: DatasetSource, split: str, index: int = 0):
    return source.find(source.ids(split)[index])


PEOPLE = {
    "image_url": "https://live.example.com/1/77_b.JPG?x=1",
    "image_sha256": "ab" * 32,
    "count": 2,
    "points": {"x": [10.5, 50.0], "y": [5.25, 30.0]},
    "label": "people",
}


class TestPixmoCount:
    def test_tables_are_splits_and_points_are_on_the_things(self, tmp_path):
        import pyarrow
        from pyarrow import parquet

        put(tmp_path / "images" / f"{PEOPLE['image_sha256']}.jpg", picture())
        for name in ("train-00000-of-00001", "validation-00000-of-00001"):
            (tmp_path / "data").mkdir(exist_ok=True)
            parquet.write_table(pyarrow.Table.from_pylist([PEOPLE]), tmp_path / "data" / f"{name}.parquet")
        source, told = quietly(dataset_source, "pixmo_count", tmp_path)
        assert told == [] and source.broken_rows == ()
        assert [source.num_samples(split) for split in ("train", "val", "test")] == [1, 1, 0]
        sample = sample_of(source, "train")
        assert sample.sample_id == "pixmo_count:data/train-00000-of-00001/0"
        assert sample.question == "How many people are there in the picture?" and sample.category == "count"
        assert score_answer("2", sample.key) == 1.0 and score_answer("3", sample.key) == 0.0
        assert score_answer("two people", sample.key) == 1.0
        assert [(each.label, each.point.x, each.point.y) for each in sample.evidence] == [
            ("people", 10.5, 5.25),
            ("people", 50.0, 30.0),
        ]

    def test_a_large_count_must_be_equal(self, tmp_path):
        put(tmp_path / "images" / PEOPLE["image_sha256"], picture())
        put(tmp_path / "train.jsonl", lines(PEOPLE | {"count": 40, "points": {"x": [1.0] * 40, "y": [1.0] * 40}}))
        key = sample_of(dataset_source("pixmo_count", tmp_path), "train").key
        assert [score_answer(str(answer), key) for answer in (38, 39, 40, 41, 42)] == [0, 0, 1, 0, 0]

    def test_an_expert_points_and_has_no_boxes_to_write(self, tmp_path):
        put(tmp_path / "images" / PEOPLE["image_sha256"], picture())  # saved without an ending
        put(tmp_path / "train.jsonl", lines(PEOPLE | {"points": [{"x": 10.5, "y": 5.25}, {"x": 99, "y": 5}]}))
        kwargs = {"dataset": "pixmo_count", "folder": str(tmp_path)}
        texts = {}
        for prompt_format in ("points", "ivgr_grounded"):
            world = vlm_envs.make("VLM/ZoomQA-v0", prompt_format=prompt_format, **kwargs).unwrapped
            world.reset(seed=0)
            texts[prompt_format] = OracleAgent().write(world)
            *_, info = world.step(texts[prompt_format])
            assert info["success"] and info["state"]["evidence"] == []
        # The second point lies outside the picture
        assert texts["points"].count("<points") == 1 and 'x1="17.50" y1="13.75" alt="people"' in texts["points"]
        assert "[" not in texts["ivgr_grounded"]

    def test_broken_rows_are_named_counted_and_left_out(self, tmp_path):
        put(tmp_path / "images" / f"{PEOPLE['image_sha256']}.jpg", picture())
        rows = (
            PEOPLE,
            b"{not json",
            PEOPLE | {"count": "two"},
            PEOPLE | {"label": " "},
            PEOPLE | {"points": {"x": [1.0], "y": []}},
            PEOPLE | {"image_sha256": "cd" * 32},
            PEOPLE | {"image": "../../outside/secret.txt"},
            [1],
        )
        put(tmp_path / "test.jsonl", lines(*rows))
        source, (told,) = quietly(dataset_source, "pixmo_count", tmp_path)
        assert source.num_samples("test") == 1 and len(source.broken_rows) == 7
        assert told.startswith("Omitted 7 of 8 rows of pixmo_count. test.jsonl, line 2: expected a JSON object")
        assert told.endswith("And 4 more.")
        expected = (
            "JSON",
            "'count'",
            "'label'",
            "equally many x and y",
            f"images/{'cd' * 32}.jpg",
            "secret.txt",
            "JSON object",
        )
        for number, (message, part) in enumerate(zip(source.broken_rows, expected, strict=True), start=2):
            assert message.startswith(f"test.jsonl, line {number}: ") and part in message

    def test_where_all_rows_are_broken_there_is_no_data_set(self, tmp_path):
        put(tmp_path / "train.jsonl", lines(PEOPLE))
        with pytest.raises(ConfigError, match=r"no questions\. train\.jsonl, line 1: expected a file images/abab"):
            dataset_source("pixmo_count", tmp_path)

    def test_a_picture_that_cannot_be_read_is_left_out_when_it_is_drawn(self, tmp_path):
        put(tmp_path / "images" / "good.jpg", picture())
        put(tmp_path / "images" / "bad.jpg", b"<html>not found</html>")
        put(tmp_path / "train.jsonl", lines(*(PEOPLE | {"image": f"images/{name}.jpg"} for name in ("bad", "good"))))
        source, told = quietly(dataset_source, "pixmo_count", tmp_path)
        assert told == []
        rng = np.random.default_rng(0)
        with pytest.warns(UserWarning, match=r"pixmo_count: train.jsonl, line 1: .*bad.jpg"):
            drawn = [source.draw(rng, "train").sample_id for _ in range(12)]
        assert set(drawn) == {"pixmo_count:train/1"} and len(source.broken_rows) == 1
        put(tmp_path / "images" / "good.jpg", b"")
        with pytest.raises(GenerationError, match="None of 100 rows"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            source.draw(rng, "train")


CHOICE = {
    "problem_id": 2,
    "problem": "What appears first?",
    "data_type": "video",
    "problem_type": "multiple choice",
    "options": ["A. a cup", "B. a dog.", "C. a map", "D. none"],
    "solution": "<answer>B</answer>",
    "path": "./CLEVRER/train/video_1.mp4",
    "data_source": "CLEVRER",
}


def with_frames(folder: Path, number: int = 5, path: str = "CLEVRER/train/video_1") -> None:
    for frame in range(1, number + 1):
        put(folder / path / f"{frame:04d}.png", picture(frame))


class TestVideoR1:
    def test_a_row_of_each_kind(self, tmp_path):
        with_frames(tmp_path)
        put(tmp_path / "Math" / "1.png", picture())
        image = {"data_type": "image", "path": "Math/1.png", "options": []}
        rows = [
            CHOICE,
            CHOICE | image | {"problem_type": "numerical", "solution": "<answer>3</answer>"},
            CHOICE | image | {"problem_type": "regression", "solution": "<answer>2.5</answer>"},
            CHOICE | image | {"problem_type": "OCR", "solution": "<answer>STOP</answer>"},
            CHOICE | {"problem_type": "free-form", "options": [], "solution": "<answer> It falls. </answer>"},
            CHOICE | {"process": "<think>Long.</think>", "options": [], "problem": "Which?\nA. one\nB. two"},
        ]
        put(tmp_path / "Video-R1-260k.json", rows)
        source, told = quietly(video_source, "video_r1", tmp_path, is_benchmark=True)
        assert told == [] and source.num_samples("test") == 6
        assert source.answer_kinds == {"choice", "number", "anls", "semantic"}
        samples = [source.sample_at(index, "test") for index in range(6)]
        assert [sample.category for sample in samples] == [
            *("multiple_choice", "numerical", "regression", "ocr", "free_form", "multiple_choice")
        ]
        for sample, answer in zip(samples, ("a dog", "3", "2.6", "stop", "it falls", "B"), strict=True):
            assert score_answer(answer, sample.key) == 1.0, sample.question
        # Video-R1 pays numerical answers where they are equal and regression by distance.
        assert [score_answer(answer, samples[1].key) for answer in ("three", "3.1", "2.9")] == [1.0, 0.0, 0.0]
        assert [score_answer(answer, samples[2].key) for answer in ("2.4", "2.2")] == [1.0, 0.0]
        assert samples[0].times_s == (0.0, 0.5, 1.0, 1.5, 2.0) and len(samples[0].images) == 5
        assert samples[1].times_s == () and len(samples[1].images) == 1
        assert samples[0].images[4].picture().pixels[0, 0, 0] == 5
        assert pickle.loads(pickle.dumps(source)).find(samples[0].sample_id) == samples[0]

    @pytest.mark.parametrize("name", ["{}.png", "frame_{}.png", "clip 2 - {}.PNG", "{:02}.png", "{}s.png"])
    def test_frames_come_in_the_order_of_their_numbers(self, tmp_path, name):
        for frame in range(1, 13):
            put(tmp_path / "CLEVRER/train/video_1" / name.format(frame), picture(frame))
        put(tmp_path / "part.jsonl", lines(CHOICE))
        sample = sample_of(video_source("video_r1", tmp_path, is_benchmark=True), "test")
        assert [image.picture().pixels[0, 0, 0] for image in sample.images] == list(range(1, 13))
        assert sample.times_s == tuple(index / 2 for index in range(12))

    @pytest.mark.parametrize("name", ["t-{}.png", "x.t{}.png"])
    def test_frames_named_by_decimal_times_come_in_the_order_of_these(self, tmp_path, name):
        for frame, time in enumerate(("0.5", "2", "2.25", "2.5", "10.0")):
            put(tmp_path / "CLEVRER/train/video_1" / name.format(time), picture(frame))
        put(tmp_path / "part.jsonl", lines(CHOICE))
        sample = sample_of(video_source("video_r1", tmp_path, is_benchmark=True), "test")
        assert [image.picture().pixels[0, 0, 0] for image in sample.images] == [0, 1, 2, 3, 4]

    def test_the_ending_of_a_video_within_the_names_of_its_frames_is_no_decimal(self, tmp_path):
        for frame, name in enumerate(("mp4.9", "mp4.10", "mp4.10.25", "mp4.10.5", "mp4.11")):
            put(tmp_path / "CLEVRER/train/video_1" / f"clip.{name}.png", picture(frame))
        put(tmp_path / "part.jsonl", lines(CHOICE))
        sample = sample_of(video_source("video_r1", tmp_path, is_benchmark=True), "test")
        assert [image.picture().pixels[0, 0, 0] for image in sample.images] == [0, 1, 2, 3, 4]

    def test_long_videos_are_spread_over_their_frames(self, tmp_path):
        with_frames(tmp_path, 40)
        put(tmp_path / "part.jsonl", lines(CHOICE))
        sample = sample_of(video_source("video_r1", tmp_path, is_benchmark=True), "test")
        assert len(sample.images) == 32, "section 4.2 of Argos"
        assert (sample.times_s[0], sample.times_s[-1]) == (0.0, 19.5)
        assert spread(3, 16) == (0, 1, 2) and spread(31, 16) == tuple(range(0, 31, 2))

    def test_a_world_says_how_many_frames_are_shown(self, tmp_path):
        with_frames(tmp_path, 40)
        put(tmp_path / "part.jsonl", lines(CHOICE))
        kwargs = {"dataset": "video_r1", "folder": str(tmp_path), "is_benchmark": True, "split": "test"}
        several, few = (vlm_envs.make("VLM/VideoQA-v0", max_frames=most, **kwargs).unwrapped for most in (None, 3))
        shown, (told, info) = several.reset(seed=0)[0], few.reset(seed=0)
        assert len(shown["images"]) == 32, "copies are shared, but not by worlds that show another number"
        assert len(told["images"]) == 3 and info["state"]["times_s"] == [0.0, 9.5, 19.5]

    def test_a_number_of_frames_is_of_a_data_set_and_has_a_first_and_a_last(self, tmp_path):
        with pytest.raises(ConfigError, match=r"max_frames=3 needs a dataset.*num_frames"):
            vlm_envs.make("VLM/VideoQA-v0", max_frames=3)
        with pytest.raises(ConfigError, match="max_frames"):
            video_source("video_r1", tmp_path, max_frames=1)

    def test_the_world_shows_frames_with_their_times_and_pictures_without(self, tmp_path):
        with_frames(tmp_path)
        put(tmp_path / "Math" / "1.png", picture())
        put(tmp_path / "part.jsonl", lines(CHOICE, CHOICE | {"data_type": "image", "path": "Math/1.png"}))
        kwargs = {"dataset": "video_r1", "folder": str(tmp_path), "is_benchmark": True, "split": "test"}
        world = vlm_envs.make("VLM/VideoQA-v0", **kwargs).unwrapped
        told, info = world.reset(seed=0)
        assert "F1 at t = 0.0 s, F2 at t = 0.5 s" in told["text"] and len(told["images"]) == 5
        assert info["state"]["times_s"] == [0.0, 0.5, 1.0, 1.5, 2.0]
        told, info = world.reset(seed=1)
        assert "Picture original_image: 60 x 40 pixels." in told["text"] and info["state"]["times_s"] == []
        *_, info = world.step(OracleAgent().write(world))
        assert info["success"]

    def test_broken_rows_are_named_counted_and_left_out(self, tmp_path):
        with_frames(tmp_path)
        broken = [
            {"solution": "B"},
            {"solution": "<answer></answer>"},
            {"solution": "<answer>F</answer>"},
            {"options": ["a cup", "a dog"]},
            {"problem_type": "riddle"},
            {"data_type": "sound"},
            {"path": "CLEVRER/train/video_2.mp4"},
            {"path": "../outside/video_1.mp4"},
            {"data_type": "image", "path": "Math/2.png"},
            {"problem": None},
        ]
        (tmp_path.parent / "outside" / "video_1").mkdir(parents=True, exist_ok=True)
        put(tmp_path / "Video-R1-260k.json", [CHOICE, *(CHOICE | changes for changes in broken), "no row"])
        source, (told,) = quietly(video_source, "video_r1", tmp_path, is_benchmark=True)
        assert source.num_samples("test") == 1 and len(source.broken_rows) == len(broken) + 1
        assert told.startswith("Omitted 11 of 12 rows of video_r1. Video-R1-260k.json, row 2: expected an answer")
        for number, message in enumerate(source.broken_rows, start=2):
            assert message.startswith(f"Video-R1-260k.json, row {number}: ")
        assert "a folder CLEVRER/train/video_2 with the frames" in source.broken_rows[6]

    def test_folders_of_frames_that_cannot_be_shown_are_left_out_when_they_are_drawn(self, tmp_path):
        with_frames(tmp_path)
        (tmp_path / "empty").mkdir()
        put(tmp_path / "mixed" / "1.png", picture())
        put(tmp_path / "mixed" / "2.png", picture(size=(8, 8)))
        rows = [CHOICE, *(CHOICE | {"path": f"{name}.mp4"} for name in ("empty", "mixed"))]
        put(tmp_path / "part.jsonl", lines(*rows))
        source, _ = quietly(video_source, "video_r1", tmp_path, is_benchmark=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            drawn = {source.draw(np.random.default_rng(seed), "test").sample_id for seed in range(12)}
        assert drawn == {"video_r1:part/0"}
        assert {"images in empty" in each or "one size in mixed" in each for each in source.broken_rows} == {True}

    def test_the_questions_of_a_video_stay_in_one_split(self, tmp_path):
        for number in range(30):
            with_frames(tmp_path, 1, f"v/{number}")
        put(tmp_path / "part.jsonl", lines(*(CHOICE | {"path": f"v/{n}.mp4"} for n in range(30) for _ in range(2))))
        source = video_source("video_r1", tmp_path)
        for split in ("train", "val", "test"):
            numbers = [int(each.rsplit("/", 1)[1]) for each in source.ids(split)]
            assert {number ^ 1 for number in numbers} == {*numbers}
            clusters = {number // 2: source.find(f"video_r1:part/{number}").cluster for number in numbers}
            assert clusters == {number // 2: source.find(f"video_r1:part/{number ^ 1}").cluster for number in numbers}
            assert len(set(clusters.values())) == len(clusters)
        assert source.num_samples("train") > 30
