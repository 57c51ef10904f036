"""Masks from Grounding DINO and SAM: the real code on small random weights, and geometry with planted outputs."""

from __future__ import annotations

import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from agents.perception.grounding_dino_sam import GroundingDino, GroundingDinoSam, Sam, as_phrase
from agents.perception.weights import WeightsUnavailableError
from judges.episode_rewards.argos import MaskModel, spatial_score
from judges.grounding import WrittenPoint
from tests.unit.agents.perception.checkpoints import MAX_TEXT_TOKENS, SAM_SIDE_PX, save_detector, save_segmenter
from vlm_envs.errors import ConfigError

WIDTH, HEIGHT = 90, 50
PICTURE = np.random.default_rng(0).integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)
ANY_BOX = {"threshold": 0.0, "max_boxes": 3}


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    return save_detector(tmp_path_factory.mktemp("detector")), save_segmenter(tmp_path_factory.mktemp("segmenter"))


@pytest.fixture
def masker(directories):
    made = GroundingDinoSam.from_pretrained(*directories)
    made.detector.threshold, made.detector.max_boxes = ANY_BOX.values()
    return made


def test_checkpoints_saved_in_half_precision_compute_in_float32(directories, tmp_path):
    folders = tmp_path / "detector", tmp_path / "segmenter"
    for source, folder in zip(directories, folders, strict=True):
        shutil.copytree(source, folder)
        weights = load_file(folder / "model.safetensors")
        halves = {name: value.bfloat16() if value.is_floating_point() else value for name, value in weights.items()}
        save_file(halves, folder / "model.safetensors", metadata={"format": "pt"})
        config = json.loads((folder / "config.json").read_text()) | {"dtype": "bfloat16"}
        (folder / "config.json").write_text(json.dumps(config))
    assert GroundingDino.from_pretrained(folders[0]).model.dtype == torch.float32
    assert Sam.from_pretrained(folders[1]).model.dtype == torch.float32


class PlantedDetector:
    """What Grounding DINO is to `GroundingDino`, with scores and boxes of our own."""

    device, dtype = torch.device("cpu"), torch.float32
    config = SimpleNamespace(max_text_len=MAX_TEXT_TOKENS)

    def __init__(self, scores, boxes):
        self.output = SimpleNamespace(
            logits=torch.tensor([scores]).logit()[..., None], pred_boxes=torch.tensor([boxes])
        )
        self.asked = []

    def eval(self):
        return self

    def __call__(self, **inputs):
        self.asked.append(inputs)
        return self.output


class PaintingSegmenter:
    """What SAM is to `Sam`, with masks that are the boxes themselves, at a quarter of its resolution."""

    device, dtype = torch.device("cpu"), torch.float32

    def __init__(self):
        self.seen = []

    def eval(self):
        return self

    def get_image_embeddings(self, pixels):
        self.seen.append(pixels)
        return pixels.mean()

    def __call__(self, *, image_embeddings, input_boxes, multimask_output):
        side = SAM_SIDE_PX // 4
        middles = (torch.arange(side) + 0.5) * 4
        masks = torch.stack(
            [
                ((middles > top) & (middles < bottom))[:, None] & ((middles > left) & (middles < right))[None]
                for left, top, right, bottom in input_boxes[0]
            ]
        )
        assert multimask_output is False
        return SimpleNamespace(pred_masks=(masks * 20.0 - 10.0)[None, :, None])


def painting(masker):
    """The masker with a segmenter that paints boxes."""
    return GroundingDinoSam(masker.detector, Sam(PaintingSegmenter(), masker.segmenter.image_processor))


def planted(masker, scores, boxes, **settings):
    """The same, with a detector that finds these boxes."""
    old = masker.detector
    detector = GroundingDino(PlantedDetector(scores, boxes), old.tokenizer, old.image_processor, **settings)
    return GroundingDinoSam(detector, painting(masker).segmenter)


class TestLoadedWeights:
    def test_a_mask_of_the_pictures_size_comes_out(self, masker):
        for shape in ((HEIGHT, WIDTH), (WIDTH, HEIGHT), (7, 9)):
            picture = np.resize(PICTURE, (*shape, 3))
            mask = masker.mask(picture, "red mug")
            assert mask.shape == shape and mask.dtype == np.bool_
            boxes = masker.detector.boxes(picture, "red mug")
            assert boxes.shape == (3, 4)
            left, top, right, bottom = boxes.T
            assert bool((left < right).all() and (top < bottom).all())
            assert float(boxes.min()) >= 0 and float(right.max()) <= shape[1] and float(bottom.max()) <= shape[0]

    def test_both_models_look_at_picture_and_label(self, masker):
        boxes = masker.detector.boxes(PICTURE, "red mug")
        assert not torch.equal(boxes, masker.detector.boxes(PICTURE, "kite"))
        assert not torch.equal(boxes, masker.detector.boxes(PICTURE[::-1].copy(), "red mug"))
        assert torch.equal(boxes, masker.detector.boxes(PICTURE, "  Red MUG. "))
        low_res = masker.segmenter.model(
            image_embeddings=masker.segmenter._embedding(PICTURE)[0],
            input_boxes=torch.tensor([[[0.0, 0, 20, 20], [9.0, 9, 60, 30]]]),
            multimask_output=False,
        ).pred_masks
        assert low_res.shape == (1, 2, 1, SAM_SIDE_PX // 4, SAM_SIDE_PX // 4)
        assert not torch.allclose(low_res[0, 0], low_res[0, 1])

    def test_it_tells_masks_by_label(self, masker):
        masks: MaskModel = lambda label, frame, time_s: masker.mask(PICTURE, label)  # noqa: E731
        mask = masks("red mug", None, None)
        assert 0 < mask.sum() < mask.size
        (row, column), (no_row, no_column) = np.argwhere(mask)[0], np.argwhere(~mask)[0]
        points = [
            WrittenPoint(column, row, "red mug"),
            WrittenPoint(no_column, no_row, "red mug"),
            WrittenPoint(column, row, "..."),
        ]
        assert spatial_score(points, masks) == 0.5

    def test_a_picture_is_embedded_once_for_all_labels(self, masker):
        seen = []
        embed = masker.segmenter.model.get_image_embeddings
        masker.segmenter.model.get_image_embeddings = lambda pixels: seen.append(1) or embed(pixels)
        for label in ("mug", "kite", "mug"):
            masker.mask(PICTURE, label)
        assert len(seen) == 1
        for shift in range(6):
            masker.mask(PICTURE + np.uint8(shift), "mug")
        assert len(seen) == 6 and len(masker.segmenter._pictures) == 4

    @pytest.mark.parametrize("label", ["", "...", "\ud800", "[[]]", "mug " * MAX_TEXT_TOKENS])
    def test_what_cannot_be_asked_for_is_left_open(self, masker, label):
        assert masker.mask(PICTURE, label) is None

    @pytest.mark.parametrize("shape", [(1, 300), (300, 1), (3, 40), (1, 1), (10, 5000)])
    def test_a_line_of_pixels_is_a_picture_too(self, masker, shape):
        assert masker.mask(np.zeros((*shape, 3), np.uint8), "red mug").shape == shape

    def test_arrays_that_are_no_pictures_are_refused(self, masker):
        with pytest.raises(ConfigError, match=r"got uint8\[50, 90\]"):
            masker.mask(PICTURE[..., 0], "mug")


class TestThreshold:
    BOXES = ((0.5, 0.5, 0.2, 0.4), (0.1, 0.5, 0.4, 0.2), (0.5, 0.5, 0.5, 0.5))

    @pytest.fixture
    def kept(self, masker):
        def boxes(scores, **config):
            detector = planted(masker, scores, self.BOXES, **config).detector
            found = detector.boxes(np.zeros((50, 100, 3), np.uint8), "mug")
            return [pytest.approx(box, abs=1e-4) for box in found.tolist()]

        return boxes

    def test_scores_above_it_are_kept_the_best_first(self, kept):
        # The middle of the second is 10 and its width 40 pixels: what is outside the picture is cut off.
        assert kept([0.6, 0.7, 0.2], threshold=0.5) == [[0, 20, 30, 30], [40, 15, 60, 35]]
        assert kept([0.6, 0.7, 0.2], threshold=0.5, max_boxes=1) == [[0, 20, 30, 30]]
        assert len(kept([0.6, 0.7, 0.2], threshold=0.1)) == 3

    def test_a_score_at_it_is_not_above_it(self, kept):
        assert kept([0.5, 0.5, 0.2], threshold=0.5) == []
        assert kept([0.0, 0.0, 0.0], threshold=0.0) == []

    def test_the_shipped_threshold(self, kept):
        assert len(kept([0.36, 0.34, 0.1])) == 1


class TestGeometry:
    def test_a_mask_is_where_its_box_is(self, masker):
        # Columns 22.5 to 67.5, rows 12.5 to 37.5 of a picture that SAM sees with 64 columns and 36 rows, padded to 64.
        mask = planted(masker, [0.9], [(0.5, 0.5, 0.5, 0.5)]).mask(PICTURE, "mug")
        box = np.zeros((HEIGHT, WIDTH), np.bool_)
        box[12:38, 22:68] = True
        assert (mask & box).sum() / (mask | box).sum() > 0.85
        rows, columns = np.nonzero(mask)
        assert (rows.mean(), columns.mean()) == pytest.approx((24.5, 44.5), abs=1.5)

    def test_every_box_above_the_threshold_counts(self, masker):
        boxes = [(0.2, 0.5, 0.2, 0.5), (0.8, 0.5, 0.2, 0.5)]
        both = planted(masker, [0.9, 0.5], boxes).mask(PICTURE, "mugs")
        one = planted(masker, [0.9, 0.5], boxes, max_boxes=1).mask(PICTURE, "mugs")
        assert both[25, 18] and both[25, 72] and not both[25, 45]
        assert one[25, 18] and not one[25, 72]

    def test_nothing_found_is_an_empty_mask(self, masker):
        mask = planted(masker, [0.3], [(0.5, 0.5, 0.5, 0.5)]).mask(PICTURE, "mug")
        assert mask.shape == (HEIGHT, WIDTH) and not mask.any()

    def test_pictures_are_prepared_with_the_constants_of_the_directory(self, masker):
        white = np.full((HEIGHT, WIDTH, 3), 255, np.uint8)
        one = planted(masker, [0.9], [(0.5, 0.5, 0.5, 0.5)])
        one.mask(white, "red mug")
        (asked,), (seen,) = one.detector.model.asked, one.segmenter.model.seen
        expected = [(1 - mean) / std for mean, std in ((0.485, 0.229), (0.456, 0.224), (0.406, 0.225))]
        # The longer side is at most 128: 50 x 90 becomes 71 x 128; for SAM it is 64, and padded with zeros
        assert asked["pixel_values"].shape == (1, 3, 71, 128)
        assert asked["pixel_values"][0, :, 5, 5].tolist() == pytest.approx(expected, abs=1e-4)
        assert asked["input_ids"].tolist() == [[101, 1050, 1051, 1012, 102]]
        assert seen.shape == (1, 3, 64, 64) and not seen[:, :, 36:].any()
        assert seen[0, :, 35, 63].tolist() == pytest.approx(expected, abs=1e-4)


@given(st.text(max_size=30))
def test_a_phrase_is_words_and_one_dot(label):
    phrase = as_phrase(label)
    assert phrase == "" or (phrase.endswith(".") and phrase.count(".") == 1 and not set(phrase) & set("[]<>_\n"))


class TestMissingWeights:
    def test_an_empty_directory(self, directories, tmp_path):
        with pytest.raises(WeightsUnavailableError, match=r"No weights in .* Nothing is downloaded"):
            GroundingDinoSam.from_pretrained(tmp_path, directories[1])

    def test_directories_in_the_wrong_order(self, directories):
        with pytest.raises(WeightsUnavailableError, match=r"of type 'grounding-dino' .*'sam'"):
            GroundingDinoSam.from_pretrained(*reversed(directories))

    def test_no_weights_beside_the_configuration(self, directories, tmp_path):
        shutil.copy(directories[1] / "config.json", tmp_path)
        with pytest.raises(WeightsUnavailableError, match="missing or damaged"):
            Sam.from_pretrained(tmp_path)

    def test_weights_that_lack_a_tensor_are_not_drawn_at_random(self, directories, tmp_path):
        shutil.copytree(directories[1], tmp_path, dirs_exist_ok=True)
        weights = load_file(tmp_path / "model.safetensors")
        del weights["vision_encoder.neck.conv1.weight"]
        save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
        with pytest.raises(
            WeightsUnavailableError, match=r"lack 1 tensors of a sam model, such as vision_encoder\.neck"
        ):
            Sam.from_pretrained(tmp_path)

    @pytest.mark.parametrize("names", [("preprocessor_config.json",), ("tokenizer.json", "vocab.txt")])
    def test_parts_that_are_not_there(self, directories, tmp_path, names):
        shutil.copytree(directories[0], tmp_path, dirs_exist_ok=True)
        for name in names:
            (tmp_path / name).unlink()
        with pytest.raises(WeightsUnavailableError, match=f"no {names[0]} or .* copy the whole published directory"):
            GroundingDino.from_pretrained(tmp_path)

    def test_parts_that_cannot_be_read(self, directories, tmp_path):
        shutil.copytree(directories[0], tmp_path, dirs_exist_ok=True)
        (tmp_path / "preprocessor_config.json").write_text("{", encoding="utf-8")
        with pytest.raises(WeightsUnavailableError, match=r"preprocessor_config\.json in .* cannot be read"):
            GroundingDino.from_pretrained(tmp_path)

    def test_a_vocabulary_without_the_fast_tokenizers_file_is_enough(self, directories, tmp_path):
        shutil.copytree(directories[0], tmp_path, dirs_exist_ok=True)
        (tmp_path / "tokenizer.json").unlink()
        tokenizer = GroundingDino.from_pretrained(tmp_path).tokenizer
        assert tokenizer("red mug.")["input_ids"] == [101, 1050, 1051, 1012, 102]

    @pytest.mark.parametrize("text", ["{", "[]", json.dumps({})])
    def test_a_configuration_that_is_none(self, tmp_path, text):
        (tmp_path / "config.json").write_text(text, encoding="utf-8")
        with pytest.raises(WeightsUnavailableError):
            Sam.from_pretrained(tmp_path)


def test_what_lies_under_points_is_filled_by_the_real_code(masker):
    points = torch.tensor([[10.0, 5.0], [80.0, 40.0]])
    both = masker.segmenter.mask_at(PICTURE, points)
    alone = [masker.segmenter.mask_at(PICTURE, each[None]) for each in points]
    assert both.shape == (HEIGHT, WIDTH) and both.dtype == bool
    assert (both == (alone[0] | alone[1])).all(), "one mask a point"
    assert not masker.segmenter.mask_at(PICTURE, torch.zeros(0, 2)).any()


def test_points_are_for_where_no_box_is(masker, monkeypatch):
    asked = []
    masker.pointer = lambda picture, label: asked.append(label) or [(50.0, 50.0)]
    masker.mask(PICTURE, "mug")
    assert not asked, "there are boxes"
    monkeypatch.setattr(masker.detector, "boxes", lambda picture, label: torch.zeros(0, 4))
    expected = masker.segmenter.mask_at(PICTURE, torch.tensor([[WIDTH / 2, HEIGHT / 2]]))
    assert (masker.mask(PICTURE, "bar") == expected).all() and asked == ["bar"]
    masker.pointer = None
    assert not masker.mask(PICTURE, "bar").any()
