"""A broken row of a data set is left out, counted and named; the others are read."""

import base64
import io
import warnings
from contextlib import closing

import numpy as np
import pytest
from PIL import Image

import vlm_envs
from tests.unit.vlm_envs.qa.test_datasets import (
    GQA,
    TALLYQA,
    TREEVGR,
    VSR,
    VSTAR,
    everything,
    gqa,
    hrbench,
    image_bytes,
    lines,
    tallyqa,
    treevgr,
    vsr,
    vstar,
    write,
)
from vlm_envs.errors import GenerationError
from vlm_envs.qa.datasets.dataset_splits import told_left_out, unshown_items
from vlm_envs.qa.datasets.image_datasets import dataset_source, video_source
from vlm_envs.splits import split_seeds


def cut_off(number=0):
    """A picture whose file ends in the middle: its header is whole."""
    file = io.BytesIO()
    noise = np.random.default_rng(number).integers(0, 255, (48, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(file, "PNG")
    return file.getvalue()[:4000]


def vstar_of_two(folder):
    write(folder / "direct_attributes" / "sa_2.json", VSTAR | {"bbox": []})
    write(folder / "direct_attributes" / "sa_2.jpg", image_bytes())
    write(folder / "direct_attributes" / "sa_3.json", "{")
    write(folder / "direct_attributes" / "sa_3.jpg", image_bytes())
    return vstar(folder)


def gqa_of_two(folder):
    write(folder / "train_balanced_questions.json", {"1": GQA | {"question": " "}, "2": 3})
    return gqa(folder)


def hrbench_of_two(folder):
    row = f"0\tQ?\tA\tsingle\t1\t2\t3\t4\t0\t{base64.b64encode(image_bytes()).decode()}"
    return hrbench(folder, [row, row.replace("\tA\t", "\tE\t"), row])


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (vstar_of_two, ["sa_2.json: expected a box", "sa_3.json: "]),
        (hrbench_of_two, ["row 2: expected A, B, C or D", "row 3: expected an id other than that of"]),
        (lambda folder: vsr(folder, VSR, VSR | {"label": 2}), ["dev.jsonl, line 2: expected 0 or 1"]),
        (lambda folder: tallyqa(folder, TALLYQA, 3), ["train.json, row 2: expected a JSON object"]),
        (gqa_of_two, ["question 1: expected a text", "question 2: expected a JSON object"]),
        (lambda folder: treevgr(folder, TREEVGR | {"problem": 1}, TREEVGR), ["table.jsonl, line 1: expected a text"]),
    ],
)
def test_broken_rows_are_left_out_and_counted(make, named, tmp_path):
    with pytest.warns(UserWarning, match=rf"{len(named)} of {len(named) + 1} rows of \w+"):
        source = make(tmp_path)
    assert len(everything(source)) == 1 and len(source.broken_rows) == len(named)
    assert all(part in message for part, message in zip(named, source.broken_rows, strict=True))


QUESTION = {"problem": "How many?", "answer": "B", "target_instances": []}
VIDEO = {"problem_type": "numerical", "problem": "How many?", "solution": "<answer>2</answer>", "data_type": "video"}


def photographs(folder, *pictures):
    """Questions about pictures, of which None is not there."""
    for number, picture in enumerate(pictures):
        if picture is not None:
            write(folder / f"{number}.png", picture)
    write(folder / "table.jsonl", lines(*(QUESTION | {"images": [f"{n}.png"]} for n in range(len(pictures)))))
    return dataset_source("treevgr", folder, is_benchmark=True)


@pytest.mark.parametrize("broken", [cut_off(), b"", b"no picture", None], ids=["cut off", "empty", "text", "missing"])
def test_a_picture_that_cannot_be_shown_is_named_by_its_row_when_its_turn_comes(broken, tmp_path):
    source = photographs(tmp_path, broken, image_bytes())
    with pytest.warns(UserWarning, match=r"table\.jsonl, line 1: .*0\.png.* omitted so far: 1"):
        drawn = [source.draw(np.random.default_rng(seed), "test") for seed in range(20)]
    assert {each.sample_id for each in drawn} == {"treevgr:table/1"}
    assert len(source.broken_rows) == 1


def test_a_world_that_goes_through_a_list_goes_on_with_the_next_row(tmp_path):
    photographs(tmp_path, image_bytes(), cut_off(1), None, image_bytes((9, 9, 9)))
    settings = {"dataset": "treevgr", "folder": str(tmp_path), "is_benchmark": True, "split": "test"}
    world = vlm_envs.make("VLM/ZoomQA-v0", **settings)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        played = []
        for seed in split_seeds("test", 4):
            world.reset(seed=seed)
            played.append(world.unwrapped.dynamics.dump(world.unwrapped.state).rpartition("/")[2])
    assert played == ["0", "3", "3", "3"]
    assert [f"line {number}" in str(each.message) for each, number in zip(told, (2, 3), strict=True)] == [True, True]
    world.close()


def test_who_counts_each_item_once_finds_those_that_cannot_be_shown(tmp_path):
    photographs(tmp_path, image_bytes(), cut_off(1), None, image_bytes((9, 9, 9)))
    settings = {"dataset": "treevgr", "folder": str(tmp_path), "is_benchmark": True}
    with closing(vlm_envs.make("VLM/ZoomQA-v0", **settings, split="test")) as world:
        found = unshown_items(world.unwrapped, split_seeds("test", 4))
    assert list(found) == list(split_seeds("test", 2, start=1))
    assert all(f"line {number}: " in each for each, number in zip(found.values(), (2, 3), strict=True))
    assert told_left_out("here", found.values()).startswith("here: omitted 2 that cannot be shown. table.jsonl")
    with closing(vlm_envs.make("VLM/ZoomQA-v0", split="test")) as drawn:
        assert unshown_items(drawn.unwrapped, split_seeds("test", 4)) == {}


def test_if_none_can_be_shown_that_is_told(tmp_path):
    source = photographs(tmp_path, None, cut_off())
    with pytest.warns(UserWarning), pytest.raises(GenerationError, match=r"None of 2 rows .*Copy"):
        source.sample_at(0, "test")


def test_quotes_that_are_never_closed_cost_the_rows_behind_them_and_no_others(tmp_path):
    row = f"0\tQ?\tA\tsingle\t1\t2\t3\t4\t0\t{base64.b64encode(image_bytes()).decode()}"
    with pytest.warns(UserWarning, match=r"1 of 2 rows of hrbench.*row 2: expected quotes that are closed"):
        source = hrbench(tmp_path, [row, '1\t"Q?\tA\tsingle\t1\t2\t3\t4\t0\tAAAA', row])
    assert len(everything(source)) == 1


@pytest.mark.parametrize("path", ["\ud800/a.mp4", "a\0b.mp4", "../a.mp4", "x" * 5000 + ".mp4"])
def test_a_path_that_no_file_can_have_is_a_rows_fault(path, tmp_path):
    write(tmp_path / "a" / "1.png", image_bytes())
    write(tmp_path / "v.json", [VIDEO | {"path": "a.mp4"}, VIDEO | {"path": path}])
    with pytest.warns(UserWarning, match=r"v\.json, row 2: expected a folder"):
        source = video_source("video_r1", tmp_path)
    assert len(everything(source)) == 1


def test_a_frame_that_is_cut_off_is_named_by_its_row(tmp_path):
    for number in range(4):
        write(tmp_path / "a" / f"{number}.png", cut_off() if number == 2 else image_bytes(size=(64, 48)))
    write(tmp_path / "v.json", [VIDEO | {"path": "a.mp4"}])
    source = video_source("video_r1", tmp_path, is_benchmark=True)
    with pytest.warns(UserWarning, match=r"v\.json, row 1: .*2\.png"), pytest.raises(GenerationError):
        source.sample_at(0, "test")
