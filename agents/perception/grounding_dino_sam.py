"""Masks of labeled objects in any image: Grounding DINO finds boxes, SAM segments them.

    label ── Grounding DINO ──> boxes ── SAM ──> masks ── union ──> bool[height, width]
      └── no box ── pointing model ──> points ──┘

Both models are loaded from local directories, in the published format of `save_pretrained`; nothing is downloaded.
Trained weights have not been run here: the tests load and run both models with small random weights.

Source: Argos, section 3.1, equation 1; Grounding DINO (Liu et al. 2023); Segment Anything (Kirillov et al. 2023).
Choices and deviations:

- Equation 1 has one box per label. Here every box above the threshold counts, and the mask is their union: a label may
  name three kites, and a point on any of them is right. `max_boxes=1` follows the equation exactly.
- A box's score is that of its best token, as in Grounding DINO's own code. So "red mug" may find a blue one.
- The paper uses a pointing model instead of the detector for synthetic images, such as charts or maps. Images are not
  labeled as synthetic here, so the pointing model, which is optional, is used if the detector finds nothing.
- No box above the threshold, and no point, gives an empty mask, "no such object". None, "unknown", is only for labels
  without words or with more words than the model accepts, if there is no pointing model.
- SAM is asked for one mask per box, as its authors recommend for unambiguous prompts.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from transformers import AutoTokenizer, GroundingDinoForObjectDetection, SamModel
from transformers.models.grounding_dino.image_processing_pil_grounding_dino import GroundingDinoImageProcessorPil
from transformers.models.sam.image_processing_pil_sam import SamImageProcessorPil

from agents.hf.chat import showable
from agents.perception.weights import PROCESSOR_FILES, TOKENIZER_FILES, load_model, load_part
from vlm_envs.trajectory import require_image

Pixels = npt.NDArray[np.uint8]
_NOT_WORDS = re.compile(r"[^\w\s'-]|_")

Mask = npt.NDArray[np.bool_]
_MAX_PICTURES = 4
"""Number of images whose embeddings are cached: group members are judged one after another."""

_MAX_ASPECT_RATIO = 32
"""Both models scale the longer side to a fixed length, which would reduce the shorter side of a line of pixels to 0."""

Pointer = Callable[[Pixels, str], Sequence[tuple[float, float]]]
"""Maps an image and a label to the positions of such objects, x and y in percent of the image's sides."""


def as_phrase(label: str) -> str:
    """Returns a label as a prompt for Grounding DINO: lower case, words only, a final dot; empty without words.

    Dots, which separate phrases, and brackets, which could form special tokens, are removed.
    """
    encodable = label.encode("utf-8", "ignore").decode("utf-8")
    words = _NOT_WORDS.sub(" ", encodable).lower().split()
    return f"{' '.join(words)}." if words else ""


class GroundingDino:
    """Finds boxes of labeled objects.

    Args:
        model: The detector.
        tokenizer: Its tokenizer.
        image_processor: Its image processor.
        threshold: Minimum score of a box, between 0 and 1. Choice: 0.35, as in Grounding DINO's demonstrations.
        max_boxes: Most boxes per label; the best ones are kept.
    """

    def __init__(
        self, model: Any, tokenizer: Any, image_processor: Any, *, threshold: float = 0.35, max_boxes: int = 16
    ) -> None:
        self.model, self.tokenizer, self.image_processor = model.eval(), tokenizer, image_processor
        self.threshold, self.max_boxes = threshold, max_boxes

    @classmethod
    def from_pretrained(cls, directory: str | Path, *, device: str | torch.device = "cpu") -> GroundingDino:
        """Loads the detector from a local directory.

        Raises:
            WeightsUnavailableError: If there are no weights, or they are not from a Grounding DINO.
        """
        model = load_model(GroundingDinoForObjectDetection, directory, model_type="grounding-dino")
        tokenizer = load_part(AutoTokenizer, directory, one_of=TOKENIZER_FILES)
        image_processor = load_part(GroundingDinoImageProcessorPil, directory, one_of=PROCESSOR_FILES)
        return cls(model.to(device), tokenizer, image_processor)

    @torch.no_grad()
    def boxes(self, picture: Pixels, label: str) -> Tensor | None:
        """Returns float[boxes, 4], corners in pixels, best first; None for a label that cannot be a prompt.

        Args:
            picture: uint8[height, width, 3].
            label: Object to find.
        """
        phrase = as_phrase(label)
        if not phrase:
            return None
        text = self.tokenizer(phrase, return_tensors="pt", return_token_type_ids=True)
        if text["input_ids"].shape[1] > self.model.config.max_text_len:
            return None
        image = self.image_processor(images=[picture], return_tensors="pt", input_data_format="channels_last")
        output = self.model(
            pixel_values=image["pixel_values"].to(self.model.device, self.model.dtype),
            pixel_mask=image["pixel_mask"].to(self.model.device),
            **{name: text[name].to(self.model.device) for name in ("input_ids", "token_type_ids", "attention_mask")},
        )
        size = picture.shape[:2]
        output.logits, output.pred_boxes = output.logits.float(), output.pred_boxes.float()
        (found,) = self.image_processor.post_process_object_detection(output, self.threshold, [size])
        best_N = found["scores"].argsort(descending=True, stable=True)[: self.max_boxes]
        boxes_N4: Tensor = found["boxes"][best_N]
        return boxes_N4.clamp(min=0.0).minimum(boxes_N4.new_tensor(size[::-1] * 2))


class Sam:
    """Segments the contents of boxes and the objects at points."""

    def __init__(self, model: Any, image_processor: Any) -> None:
        self.model, self.image_processor = model.eval(), image_processor
        self._pictures: OrderedDict[bytes, tuple[Tensor, Tensor, Tensor]] = OrderedDict()

    @classmethod
    def from_pretrained(cls, directory: str | Path, *, device: str | torch.device = "cpu") -> Sam:
        """Loads the segmenter from a local directory.

        Raises:
            WeightsUnavailableError: If there are no weights, or they are not from a SAM.
        """
        model = load_model(SamModel, directory, model_type="sam")
        return cls(model.to(device), load_part(SamImageProcessorPil, directory, one_of=PROCESSOR_FILES))

    def mask(self, picture: Pixels, boxes_N4: Tensor) -> Mask:
        """Returns bool[height, width], the union of the masks in the boxes; all False without boxes.

        Args:
            picture: uint8[height, width, 3].
            boxes_N4: float[boxes, 4], left, top, right, and bottom in pixels of the image.
        """
        return self._union(picture, boxes_N4.reshape(-1, 2, 2), lambda at_N22: {"input_boxes": at_N22.flatten(1)[None]})

    def mask_at(self, picture: Pixels, points_N2: Tensor) -> Mask:
        """Returns bool[height, width], the union of the masks at the points; all False without points.

        Args:
            picture: uint8[height, width, 3].
            points_N2: float[points, 2], x and y in pixels of the image.
        """
        return self._union(
            picture,
            points_N2[:, None],
            lambda at_N12: {"input_points": at_N12[None], "input_labels": torch.ones_like(at_N12[None, ..., 0]).int()},
        )

    @torch.no_grad()
    def _union(self, picture: Pixels, at_NP2: Tensor, prompts: Callable[[Tensor], dict[str, Tensor]]) -> Mask:
        """Returns the union of one mask per prompt; the points of prompts are in pixels of the image."""
        if not len(at_NP2):
            return np.zeros(picture.shape[:2], np.bool_)
        embedding, original_2, resized_2 = self._embedding(picture)
        scale_2 = (resized_2 / original_2).flip(0)  # sizes are (height, width), points are (x, y)
        scaled = (at_NP2.cpu() * scale_2).to(self.model.device, self.model.dtype)
        output = self.model(image_embeddings=embedding, multimask_output=False, **prompts(scaled))
        (masks_N1HW,) = self.image_processor.post_process_masks(
            output.pred_masks.float().cpu(), original_2[None].tolist(), resized_2[None].tolist()
        )
        union: Mask = masks_N1HW.flatten(0, 1).any(dim=0).numpy()
        return union

    def _embedding(self, picture: Pixels) -> tuple[Tensor, Tensor, Tensor]:
        """Returns an image's embedding, its original size, and its size as model input, as (height, width)."""
        key = hashlib.blake2b(picture.tobytes() + bytes(str(picture.shape), "ascii"), digest_size=16).digest()
        if key not in self._pictures:
            image = self.image_processor(images=[picture], return_tensors="pt", input_data_format="channels_last")
            pixels = image["pixel_values"].to(self.model.device, self.model.dtype)
            embedding = self.model.get_image_embeddings(pixels)
            self._pictures[key] = embedding, image["original_sizes"][0], image["reshaped_input_sizes"][0]
            if len(self._pictures) > _MAX_PICTURES:
                self._pictures.popitem(last=False)
        self._pictures.move_to_end(key)
        return self._pictures[key]


class GroundingDinoSam:
    """Masks for images without exact masks."""

    def __init__(self, detector: GroundingDino, segmenter: Sam, pointer: Pointer | None = None) -> None:
        self.detector, self.segmenter, self.pointer = detector, segmenter, pointer

    @classmethod
    def from_pretrained(
        cls,
        detector: str | Path,
        segmenter: str | Path,
        *,
        pointer: Pointer | None = None,
        device: str | torch.device = "cpu",
    ) -> GroundingDinoSam:
        """Loads detector and segmenter from two local directories.

        Args:
            detector: Directory of a Grounding DINO, such as the published `grounding-dino-tiny`.
            segmenter: Directory of a SAM, such as the published `sam-vit-base`.
            pointer: Pointing model for labels for which the detector finds nothing; None for none.
            device: Device of both.

        Raises:
            WeightsUnavailableError: If weights are missing or from another kind of model.
        """
        return cls(
            GroundingDino.from_pretrained(detector, device=device),
            Sam.from_pretrained(segmenter, device=device),
            pointer,
        )

    def mask(self, picture: Pixels, label: str) -> Mask | None:
        """Returns the mask of a labeled object, bool[height, width]; all False if there is none, None if unknown."""
        seen = showable(require_image(picture), _MAX_ASPECT_RATIO)
        boxes = self.detector.boxes(seen, label)
        height, width = picture.shape[:2]
        if self.pointer is not None and (boxes is None or not len(boxes)):
            points = [(x * width / 100, y * height / 100) for x, y in self.pointer(picture, label)]
            return self.segmenter.mask_at(seen, torch.tensor(points).reshape(-1, 2))[:height, :width]
        return None if boxes is None else self.segmenter.mask(seen, boxes)[:height, :width]
