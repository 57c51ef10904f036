"""Folders as users have them: links into the Hugging Face hub's cache, `~`, spaces, non-ASCII names, `.JPG`."""

from __future__ import annotations

import hashlib
import json
import os
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.vlm_envs.qa.datasets import test_benchmarks as copies

pytest.importorskip("pydantic", reason="needs pydantic: pip install '.[tools]'")
pytest.importorskip("pysbd", reason="needs pysbd: pip install '.[tools]'")

from tests.unit.vlm_envs.qa.datasets.test_layouts import picture, put
from tests.unit.vlm_envs.tools.pdfs import pdf
from vlm_envs.content.judging.judging_datasets import judging_dataset
from vlm_envs.errors import ConfigError
from vlm_envs.qa.datasets.dataset_source import DatasetSource
from vlm_envs.qa.datasets.document_datasets import document_source
from vlm_envs.qa.datasets.image_datasets import dataset_source, video_source
from vlm_envs.splits import SPLITS
from vlm_envs.tools.pdf_documents import PdfFolder
from vlm_envs.tools.tool_errors import ToolError, ToolErrorKind
from vlm_envs.worlds.svg.svg_corpus import load_icons


def lines(*rows: dict[str, Any]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def vstar(folder: Path) -> None:
    copies.vstar(folder, 2)


def vsr(folder: Path) -> None:
    put(folder / "test.jsonl", {"image": "1.jpg", "caption": "A is on B.", "label": 1, "relation": "on"})
    put(folder / "images" / "1.jpg", picture())


def tallyqa(folder: Path) -> None:
    put(folder / "test.json", [{"image": "VG_100K/1.jpg", "question": "How many?", "answer": 4}])
    put(folder / "VG_100K" / "1.jpg", picture())


def gqa(folder: Path) -> None:
    put(folder / "val_balanced_questions.json", {"7": {"imageId": "1", "question": "Red?", "answer": "yes"}})
    put(folder / "images" / "1.jpg", picture())


def treevgr(folder: Path) -> None:
    row = {"problem": "<image>What is it?", "answer": "a mug", "images": ["images/1.jpg"], "target_instances": []}
    put(folder / "table.jsonl", row)
    put(folder / "images" / "1.jpg", picture())


def image_folder(folder: Path) -> None:
    put(folder / "questions.jsonl", {"image": "images/1.jpg", "question": "Red?", "answer": "yes"})
    put(folder / "images" / "1.jpg", picture())


def pixmo_count(folder: Path) -> None:
    row = {"image": "images/1.jpg", "count": 1, "label": "dogs", "points": [{"x": 3, "y": 4}]}
    put(folder / "data" / "test-0.jsonl", row)
    put(folder / "images" / "1.jpg", picture())


def video_r1(folder: Path) -> None:
    row = {"problem": "What?", "data_type": "video", "problem_type": "free-form", "options": []}
    put(folder / "Video-R1-260k.json", [row | {"solution": "<answer>rain</answer>", "path": "./a/b.mp4"}])
    for number in range(3):
        put(folder / "a" / "b" / f"{number:04}.jpg", picture())


def mp_docvqa(folder: Path) -> None:
    row = {"questionId": 1, "question": "Total?", "doc_id": "d", "page_ids": ["d_p0"], "answers": ["5"]}
    put(folder / "question_answers" / "val.json", {"data": [row | {"answer_page_idx": 0}]})
    put(folder / "images" / "d_p0.jpg", picture())


def pdf_folder(folder: Path) -> None:
    put(folder / "questions.jsonl", {"document": "a.pdf", "question": "Total?", "answer": "5"})
    put(folder / "a.pdf", pdf(["page"]))


def pairs(folder: Path) -> None:
    put(folder / "pairs.jsonl", {"prompt": "What?", "chosen": "A cat.", "rejected": "A dog.", "image": "a.jpg"})
    put(folder / "a.jpg", picture())


def judged(folder: Path) -> None:
    row = {"id": 1, "track": "document", "question": "q", "responses": ["a", "b"], "answer": 1}
    put(folder / "judged.jsonl", row | {"document": "a.pdf"})
    put(folder / "a.pdf", pdf(["page"]))


LOADERS: dict[str, tuple[Callable[..., DatasetSource], Callable[..., Any]]] = {
    "vstar": (dataset_source, vstar),
    "hrbench": (dataset_source, copies.hrbench),
    "vsr": (dataset_source, vsr),
    "tallyqa": (dataset_source, tallyqa),
    "gqa": (dataset_source, gqa),
    "treevgr": (dataset_source, treevgr),
    "pixmo_count": (dataset_source, pixmo_count),
    "image_folder": (dataset_source, image_folder),
    "video_r1": (video_source, video_r1),
    "mp_docvqa": (document_source, mp_docvqa),
    "mmlongbench_doc": (document_source, copies.mmlongbench_doc),
    "pdf_folder": (document_source, pdf_folder),
    "vl_rewardbench": (judging_dataset, copies.vl_rewardbench),
    "pairs": (judging_dataset, pairs),
    "judged": (judging_dataset, judged),
}


@pytest.fixture(autouse=True)
def _two_items(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "NUM_ITEMS", 2)


def in_hub_cache(folder: Path, cache: Path) -> Path:
    """Moves files to where the Hugging Face hub keeps them; returns the folder that its download returns."""
    snapshot, blobs = cache / "snapshots" / "0f3c", cache / "blobs"
    blobs.mkdir(parents=True)
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        link, blob = snapshot / path.relative_to(folder), blobs / hashlib.sha256(str(path).encode()).hexdigest()
        link.parent.mkdir(parents=True, exist_ok=True)
        path.rename(blob)
        link.symlink_to(os.path.relpath(blob, link.parent))
    return snapshot


def shown(source: DatasetSource) -> Iterator[Any]:
    """Yields what each sample shows: the hashes of its images and of its document."""
    for split in SPLITS:
        for sample in map(source.find, source.ids(split)):
            document = sample.document and (sample.document.num_pages, sample.document.page_picture(1, 32).digest)
            yield sample.question, [image.picture().digest for image in sample.images], document


@pytest.mark.parametrize("name", LOADERS)
def test_a_copy_in_the_hubs_cache_shows_what_a_plain_copy_does(name, tmp_path):
    opened, write = LOADERS[name]
    (plain := tmp_path / "plain").mkdir()
    write(plain)
    expected = [*shown(opened(name, plain))]
    source = opened(name, in_hub_cache(plain, tmp_path / "cache"))
    assert [*shown(source)] == expected and expected
    assert source.broken_rows == ()


def test_a_folder_of_images_may_be_a_link(tmp_path):
    vsr(tmp_path / "vsr")
    (tmp_path / "vsr" / "images").rename(tmp_path / "coco")
    (tmp_path / "vsr" / "images").symlink_to(tmp_path / "coco")
    video_r1(tmp_path / "videos")
    (tmp_path / "videos" / "a").rename(tmp_path / "frames")
    (tmp_path / "videos" / "a").symlink_to(tmp_path / "frames")
    assert len([*shown(dataset_source("vsr", tmp_path / "vsr"))]) == 1
    assert len([*shown(video_source("video_r1", tmp_path / "videos"))]) == 1


@pytest.mark.parametrize("name", ["../secret.jpg", "a/../../secret.jpg", "/etc/hostname"])
def test_a_row_cannot_name_a_file_above_its_folder(tmp_path, name):
    put(tmp_path / "secret.jpg", picture())
    treevgr(tmp_path / "copy")
    row = {"problem": "What?", "answer": "it", "images": [name], "target_instances": []}
    put(tmp_path / "copy" / "more.jsonl", row)
    source = dataset_source("treevgr", tmp_path / "copy")
    (sample_id,) = (each for split in SPLITS for each in source.ids(split) if ":more/" in each)
    with pytest.raises(Exception, match=r"without '\.\.'"):
        source.find(sample_id)


def test_the_users_home_is_found(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("vsr", "pdf_folder", "pairs"):
        opened, write = LOADERS[name]
        write(tmp_path / name)
        assert len([*shown(opened(name, f"~/{name}"))]) == 1
    put(tmp_path / "icons" / "a.SVG", b'<svg xmlns="http://www.w3.org/2000/svg"/>')
    assert sum(map(len, load_icons("~/icons").values())) == 1


def test_names_may_have_spaces_other_alphabets_and_characters_of_other_systems(tmp_path):
    names = ["my photo.jpg", "Straße 東京.jpg", "at 3.00\u202fPM.jpg", "12:30.jpg", "a\\b <1>.jpg"]
    decomposed = unicodedata.normalize("NFD", "café.jpg")
    for name in (*names, decomposed):
        put(tmp_path / "images" / name, picture())
    row = {"problem": "What?", "answer": "it", "target_instances": []}
    rows = [row | {"images": [f"images/{name}"]} for name in (*names, "café.jpg")]
    put(tmp_path / "table.jsonl", lines(*rows))
    assert len([*shown(dataset_source("treevgr", tmp_path))]) == len(rows)


@pytest.mark.parametrize("name", LOADERS)
def test_endings_may_be_in_capitals(name, tmp_path):
    opened, write = LOADERS[name]
    write(tmp_path)
    for path in [path for path in tmp_path.rglob("*") if path.is_file()]:
        path.rename(path.with_suffix(path.suffix.upper()))
    assert [*shown(opened(name, tmp_path))]


def test_names_that_a_model_writes_lead_nowhere_outside(tmp_path):
    put(tmp_path / "secret.pdf", pdf(["secret"]))
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "out.pdf").symlink_to(tmp_path / "secret.pdf")
    for name in ("out.pdf", "../secret.pdf"):
        with pytest.raises(ToolError) as refused:
            PdfFolder(tmp_path / "root").document(name)
        assert refused.value.kind is ToolErrorKind.FORBIDDEN_PATH


def test_the_root_of_a_cache_names_the_folder_within_that_holds_the_data(tmp_path):
    vstar(tmp_path / "snapshots" / "0a1b")
    with pytest.raises(ConfigError, match="snapshots/0a1b"):
        dataset_source("vstar", tmp_path)
