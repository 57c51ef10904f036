"""A broken row of a data set is left out, counted and named; the others are read."""

import base64

import pytest

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
    tallyqa,
    treevgr,
    vsr,
    vstar,
    write,
)


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
    with pytest.warns(UserWarning, match=rf"{len(named)} of {len(named) + 1} rows of \w+ are left out"):
        source = make(tmp_path)
    assert len(everything(source)) == 1 and len(source.broken_rows) == len(named)
    assert all(part in message for part, message in zip(named, source.broken_rows, strict=True))
