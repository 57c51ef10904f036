"""Fine-tuning, preference pairs, judged rows, and worlds show the same image for the same file."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pydantic", reason="needs pydantic: pip install '.[tools]'")
pytest.importorskip("pysbd", reason="needs pysbd: pip install '.[tools]'")

from PIL import Image, ImageDraw

from training.sft.conversations import load_picture, picture_sizes
from vlm_envs.content.judging.judging_datasets import judging_dataset
from vlm_envs.qa.datasets.dataset_source import DatasetSource
from vlm_envs.qa.datasets.document_datasets import document_source
from vlm_envs.qa.datasets.image_datasets import dataset_source
from vlm_envs.splits import SPLITS

ORIENTATION = 0x0112


def drawing(mode: str) -> Image.Image:
    """Returns black lines on a transparent ground."""
    image = Image.new("RGBA", (60, 40))
    ImageDraw.Draw(image).line((5, 20, 55, 20), fill=(0, 0, 0, 255), width=3)
    return image.quantize(4) if mode == "P" else image.convert(mode)


def photo() -> Image.Image:
    """Returns an image whose left half is red."""
    image = Image.new("RGB", (64, 32), "white")
    image.paste((255, 0, 0), (0, 0, 32, 32))
    return image


def encoded(kind: str) -> bytes:
    file = io.BytesIO()
    if kind in ("RGBA", "LA", "P"):
        drawing(kind).save(file, "PNG")
    elif kind == "16 bits":
        Image.fromarray(np.linspace(0, 65535, 64 * 32).astype(np.uint16).reshape(32, 64)).save(file, "PNG")
    else:
        exif = Image.Exif()
        exif[ORIENTATION] = 6
        photo().save(file, kind, exif=exif, **({"quality": 95} if kind == "JPEG" else {"lossless": True}))
    return file.getvalue()


def shown(source: DatasetSource) -> np.ndarray:
    (sample_id,) = (each for split in SPLITS for each in source.ids(split))
    sample = source.find(sample_id)
    (image,) = sample.images
    assert (image.width, image.height) == (image.picture().width, image.picture().height)
    return image.picture().pixels


def by_every_reader(folder: Path, content: bytes) -> dict[str, np.ndarray]:
    """Returns what fine-tuning, two kinds of judged rows, a world's dataset, and a document show of one file."""
    (folder / "images").mkdir(parents=True)
    (folder / "images" / "a.jpg").write_bytes(content)
    pair = {"prompt": "What?", "chosen": "A cat.", "rejected": "A dog.", "image": "images/a.jpg"}
    (folder / "pairs.jsonl").write_text(json.dumps(pair))
    judged = {"id": 1, "track": "fine_grained", "question": "q", "responses": ["a", "b"], "answer": 1}
    (folder / "judged.jsonl").write_text(json.dumps(judged | {"image": "images/a.jpg"}))
    statement = {"image": "a.jpg", "caption": "A is on B.", "label": 1, "relation": "on"}
    (folder / "test.jsonl").write_text(json.dumps(statement))
    page = {"questionId": 1, "question": "Q?", "doc_id": "d", "page_ids": ["a"], "answers": ["5"], "answer_page_idx": 0}
    (folder / "val.json").write_text(json.dumps({"data": [page]}))
    document = document_source("mp_docvqa", folder)
    return {
        "sft": load_picture(folder / "images" / "a.jpg"),
        "pairs": shown(judging_dataset("pairs", folder)),
        "judged": shown(judging_dataset("judged", folder)),
        "vsr": shown(dataset_source("vsr", folder)),
        "page": document.find("mp_docvqa:1").document.page_picture(1).pixels,
    }


@pytest.mark.parametrize("kind", ["RGBA", "LA", "P", "16 bits", "JPEG", "PNG", "WEBP"])
def test_every_reader_shows_the_same_image(kind, tmp_path):
    found = by_every_reader(tmp_path / "copy", encoded(kind))
    for name, pixels in found.items():
        assert np.array_equal(pixels, found["sft"]), name


@pytest.mark.parametrize("kind", ["RGBA", "LA", "P"])
def test_transparent_images_lie_on_white(kind, tmp_path):
    (tmp_path / "a.png").write_bytes(encoded(kind))
    pixels = load_picture(tmp_path / "a.png")
    assert pixels[0, 0].tolist() == [255, 255, 255] and pixels[20, 30].tolist() == [0, 0, 0]


def test_16_bits_are_scaled_to_8(tmp_path):
    (tmp_path / "a.png").write_bytes(encoded("16 bits"))
    pixels = load_picture(tmp_path / "a.png")
    assert len(np.unique(pixels)) == 256 and abs(pixels.mean() - 127.5) < 1


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_photos_stand_upright(kind, tmp_path):
    (tmp_path / "a.jpg").write_bytes(encoded(kind))
    path = tmp_path / "a.jpg"
    assert picture_sizes([path]) == {path: (64, 32)}
    pixels = load_picture(path)
    assert pixels[8, 16].tolist()[1] < 30 and pixels[56, 16].tolist()[1] > 225, "orientation 6: left goes up"


def test_boxes_of_a_dataset_keep_their_image_as_it_is_stored(tmp_path):
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a.jpg").write_bytes(encoded("JPEG"))
    box = {"name": "mug", "bbox": [40, 0, 64, 32]}
    row = {"problem": "What?", "answer": "it", "images": ["images/a.jpg"], "target_instances": [box]}
    (tmp_path / "table.jsonl").write_text(json.dumps(row))
    assert shown(dataset_source("treevgr", tmp_path)).shape == (32, 64, 3)
