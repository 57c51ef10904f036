"""Masks of what a label names, in any image: Grounding DINO finds boxes, SAM fills them.

    label ── Grounding DINO ──> boxes ── SAM ──> masks ── union ──> bool[height, width]
      └── no box ── pointing model ──> points ──┘

Both models come from directories of the user's, as `save_pretrained` writes them and as they are published;
nothing is downloaded. Not run on trained weights here: the tests load and run both with small random ones.

Source: Argos, section 3.1, equation 1; Grounding DINO (Liu et al. 2023); Segment Anything (Kirillov et al. 2023).
Choices and deviations:

- Equation 1 has one box to a label. Here every box above the threshold counts, and the mask is the union: a label may
  name three kites, and a point on any of them is right. `max_boxes=1` is the letter of the equation.
- A box's score is that of its best token, as in Grounding DINO's own code. So "red mug" may find a blue one.
- The paper has a pointing model in place of the detector where a picture is synthetic, a chart or a map. Whether it is
  one, nobody says: here the pointing model is asked where the detector finds nothing. There may be none.
- No box above the threshold, and no point, is an empty mask, "no such object". None, "cannot tell", is only for labels
  without words or with more of them than the model takes, where nobody points.
- SAM is asked for one mask a box, as its authors advise for prompts that leave no doubt.
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
"""Pictures whose embedding is kept: siblings are judged one after another."""

_MAX_ASPECT_RATIO = 32
"""Both models scale the longer side to a fixed length; of a line of pixels nothing would be left."""

Pointer = Callable[[Pixels, str], Sequence[tuple[float, float]]]
"""From a picture and a label to where such things are, x and y in percents of its sides."""


def as_phrase(label: str) -> str:
    """Returns a label as Grounding DINO is asked for it: lower case, words only, a dot at the end; '' without words.

    Dots, which part phrases, and brackets, which would write special tokens, do not survive.
    """
    encodable = label.encode("utf-8", "ignore").decode("utf-8")
    words = _NOT_WORDS.sub(" ", encodable).lower().split()
    return f"{' '.join(words)}." if words else ""


class GroundingDino:
    """Finds boxes of what a label names.

    Args:
        model: The detector.
        tokenizer: Its tokenizer.
        image_processor: Its image processor.
        threshold: A box must score more, between 0 and 1. Choice: 0.35, as in Grounding DINO's demonstrations.
        max_boxes: Most boxes of one label, the best ones.
    """

    def __init__(
        self, model: Any, tokenizer: Any, image_processor: Any, *, threshold: float = 0.35, max_boxes: int = 16
    ) -> None:
        self.model, self.tokenizer, self.image_processor = model.eval(), tokenizer, image_processor
        self.threshold, self.max_boxes = threshold, max_boxes

    @classmethod
    def from_pretrained(cls, directory: str | Path, *, device: str | torch.device = "cpu") -> GroundingDino:
        """Returns the detector of a local directory.

        Raises:
            WeightsUnavailableError: If there are no weights, or not those of a Grounding DINO.
        """
        model = load_model(GroundingDinoForObjectDetection, directory, model_type="grounding-dino")
        tokenizer = load_part(AutoTokenizer, directory, one_of=TOKENIZER_FILES)
        image_processor = load_part(GroundingDinoImageProcessorPil, directory, one_of=PROCESSOR_FILES)
        return cls(model.to(device), tokenizer, image_processor)

    @torch.no_grad()
    def boxes(self, picture: Pixels, label: str) -> Tensor | None:
        """Returns float[boxes, 4], corners in pixels, the best first; None for a label that cannot be asked for.

        Args:
            picture: uint8[height, width, 3].
            label: What to find.
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
    """Fills boxes, and what is pointed at."""

    def __init__(self, model: Any, image_processor: Any) -> None:
        self.model, self.image_processor = model.eval(), image_processor
        self._pictures: OrderedDict[bytes, tuple[Tensor, Tensor, Tensor]] = OrderedDict()

    @classmethod
    def from_pretrained(cls, directory: str | Path, *, device: str | torch.device = "cpu") -> Sam:
        """Returns the segmenter of a local directory.

        Raises:
            WeightsUnavailableError: If there are no weights, or not those of a SAM.
        """
        model = load_model(SamModel, directory, model_type="sam")
        return cls(model.to(device), load_part(SamImageProcessorPil, directory, one_of=PROCESSOR_FILES))

    def mask(self, picture: Pixels, boxes_N4: Tensor) -> Mask:
        """Returns bool[height, width], the union of what fills the boxes; all False without boxes.

        Args:
            picture: uint8[height, width, 3].
            boxes_N4: float[boxes, 4], left, top, right and bottom in pixels of the picture.
        """
        return self._union(picture, boxes_N4.reshape(-1, 2, 2), lambda at_N22: {"input_boxes": at_N22.flatten(1)[None]})

    def mask_at(self, picture: Pixels, points_N2: Tensor) -> Mask:
        """Returns bool[height, width], the union of what lies under the points; all False without points.

        Args:
            picture: uint8[height, width, 3].
            points_N2: float[points, 2], x and y in pixels of the picture.
        """
        return self._union(
            picture,
            points_N2[:, None],
            lambda at_N12: {"input_points": at_N12[None], "input_labels": torch.ones_like(at_N12[None, ..., 0]).int()},
        )

    @torch.no_grad()
    def _union(self, picture: Pixels, at_NP2: Tensor, prompts: Callable[[Tensor], dict[str, Tensor]]) -> Mask:
        """Returns the union of one mask for each of several prompts, whose points are in pixels of the picture."""
        if not len(at_NP2):
            return np.zeros(picture.shape[:2], np.bool_)
        embedding, original_2, resized_2 = self._embedding(picture)
        scale_2 = (resized_2 / original_2).flip(0)  # Height comes before width there, x before y in boxes.
        scaled = (at_NP2.cpu() * scale_2).to(self.model.device, self.model.dtype)
        output = self.model(image_embeddings=embedding, multimask_output=False, **prompts(scaled))
        (masks_N1HW,) = self.image_processor.post_process_masks(
            output.pred_masks.float().cpu(), original_2[None].tolist(), resized_2[None].tolist()
        )
        union: Mask = masks_N1HW.flatten(0, 1).any(dim=0).numpy()
        return union

    def _embedding(self, picture: Pixels) -> tuple[Tensor, Tensor, Tensor]:
        """Returns a picture's embedding, and its height and width as they are and as the model sees them."""
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
    """Masks for pictures that nobody has exact masks of."""

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
        """Returns detector and segmenter of two local directories.

        Args:
            detector: Of a Grounding DINO, such as the published `grounding-dino-tiny`.
            segmenter: Of a SAM, such as the published `sam-vit-base`.
            pointer: Who is asked where the detector finds nothing; None for nobody.
            device: Where both run.

        Raises:
            WeightsUnavailableError: If one of them has no weights, or other ones.
        """
        return cls(
            GroundingDino.from_pretrained(detector, device=device),
            Sam.from_pretrained(segmenter, device=device),
            pointer,
        )

    def mask(self, picture: Pixels, label: str) -> Mask | None:
        """Returns bool[height, width] of what a label names, all False for no such thing; None if it cannot tell."""
        seen = showable(require_image(picture), _MAX_ASPECT_RATIO)
        boxes = self.detector.boxes(seen, label)
        height, width = picture.shape[:2]
        if self.pointer is not None and (boxes is None or not len(boxes)):
            points = [(x * width / 100, y * height / 100) for x, y in self.pointer(picture, label)]
            return self.segmenter.mask_at(seen, torch.tensor(points).reshape(-1, 2))[:height, :width]
        return None if boxes is None else self.segmenter.mask(seen, boxes)[:height, :width]
