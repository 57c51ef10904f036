"""Masks of what a label names, in any picture: Grounding DINO finds boxes, SAM fills them.

    label ── Grounding DINO ──> boxes ── SAM ──> masks ── union ──> bool[height, width]

Both models come from directories of the user's, as `save_pretrained` writes them and as they are published; nothing is
downloaded. Not run on trained weights here: the tests load and run both with small random ones.

Source: Argos, section 3.1, equation 1; Grounding DINO (Liu et al. 2023); Segment Anything (Kirillov et al. 2023).
Choices and deviations:

- Equation 1 has one box to a label. Here every box above the threshold counts, and the mask is the union: a label may
  name three kites, and a point on any of them is right. `max_boxes=1` is the letter of the equation.
- A box's score is that of its best token, as in Grounding DINO's own code. So "red mug" may find a blue one.
- No box above the threshold is an empty mask, "no such object". None, "cannot tell", is only for labels without words
  or with more of them than the model takes.
- SAM is asked for one mask a box, as its authors advise for prompts that leave no doubt.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from transformers import AutoTokenizer, GroundingDinoForObjectDetection, SamModel
from transformers.models.grounding_dino.image_processing_pil_grounding_dino import GroundingDinoImageProcessorPil
from transformers.models.sam.image_processing_pil_sam import SamImageProcessorPil

from agents.hf.chat import showable
from agents.perception.weights import PROCESSOR_FILES, TOKENIZER_FILES, load_model, load_part
from vlm_envs.errors import ConfigError, require_positive

Pixels = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
_NOT_WORDS = re.compile(r"[^\w\s'-]|_")
_MAX_ASPECT_RATIO = 32
"""Both models scale the longer side to a fixed length; of a line of pixels nothing would be left."""

_MAX_PICTURES = 4
"""Pictures whose embedding is kept: siblings are judged one after another."""


@dataclass(frozen=True, kw_only=True)
class DetectionConfig:
    """What counts as found.

    Attributes:
        threshold: A box must score more, between 0 and 1. Choice: 0.35, as in Grounding DINO's demonstrations.
        max_boxes: Most boxes of one label, the best ones.
    """

    threshold: float = 0.35
    max_boxes: int = 16

    def __post_init__(self) -> None:
        if not 0.0 <= self.threshold < 1.0:
            raise ConfigError(f"threshold must be at least 0 and below 1; got {self.threshold!r}.")
        require_positive("max_boxes", self.max_boxes)


def as_phrase(label: str) -> str:
    """Returns a label as Grounding DINO is asked for it: lower case, words only, a dot at the end; '' without words.

    Dots, which part phrases, and brackets, which would write special tokens, do not survive.
    """
    encodable = label.encode("utf-8", "ignore").decode("utf-8")
    words = _NOT_WORDS.sub(" ", encodable).lower().split()
    return f"{' '.join(words)}." if words else ""


def kept_boxes(logits_QT: Tensor, boxes_Q4: Tensor, *, width: int, height: int, config: DetectionConfig) -> Tensor:
    """Returns the boxes that count as found.

    Args:
        logits_QT: float[queries, tokens]; minus infinity where there is no token.
        boxes_Q4: float[queries, 4], middle x, middle y, width and height as parts of the picture's sides.
        width: Of the picture, in pixels.
        height: Likewise.
        config: What counts as found.

    Returns:
        float[boxes, 4], left, top, right and bottom in pixels, inside the picture, the best first.
    """
    scores_Q = logits_QT.float().sigmoid().amax(dim=-1)
    order_Q = scores_Q.argsort(descending=True, stable=True)
    best_N = order_Q[scores_Q[order_Q] > config.threshold][: config.max_boxes]
    middles_N2, sizes_N2 = boxes_Q4[best_N].float().split(2, dim=-1)
    corners_N4 = torch.cat([middles_N2 - sizes_N2 / 2, middles_N2 + sizes_N2 / 2], dim=-1).clamp(0.0, 1.0)
    return corners_N4 * corners_N4.new_tensor([width, height, width, height])


class GroundingDino:
    """Finds boxes of what a label names.

    Args:
        model: A Grounding DINO model for object detection.
        tokenizer: Its tokenizer.
        image_processor: Its image processor.
        config: What counts as found.
    """

    def __init__(self, model: Any, tokenizer: Any, image_processor: Any, config: DetectionConfig | None = None) -> None:
        self.model, self.tokenizer, self.image_processor = model.eval(), tokenizer, image_processor
        self.config = config or DetectionConfig()

    @classmethod
    def from_pretrained(
        cls, directory: str | Path, *, config: DetectionConfig | None = None, device: str | torch.device = "cpu"
    ) -> GroundingDino:
        """Returns the detector of a local directory.

        Raises:
            EngineUnavailableError: If there are no weights, or not those of a Grounding DINO.
        """
        model = load_model(GroundingDinoForObjectDetection, directory, model_type="grounding-dino")
        tokenizer = load_part(AutoTokenizer, directory, one_of=TOKENIZER_FILES)
        image_processor = load_part(GroundingDinoImageProcessorPil, directory, one_of=PROCESSOR_FILES)
        return cls(model.to(device), tokenizer, image_processor, config)

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
        height, width = picture.shape[:2]
        return kept_boxes(output.logits[0], output.pred_boxes[0], width=width, height=height, config=self.config)


class Sam:
    """Fills boxes.

    Args:
        model: A SAM model.
        image_processor: Its image processor.
    """

    def __init__(self, model: Any, image_processor: Any) -> None:
        self.model, self.image_processor = model.eval(), image_processor
        self._pictures: OrderedDict[bytes, tuple[Tensor, Tensor, Tensor]] = OrderedDict()

    @classmethod
    def from_pretrained(cls, directory: str | Path, *, device: str | torch.device = "cpu") -> Sam:
        """Returns the segmenter of a local directory.

        Raises:
            EngineUnavailableError: If there are no weights, or not those of a SAM.
        """
        model = load_model(SamModel, directory, model_type="sam")
        return cls(model.to(device), load_part(SamImageProcessorPil, directory, one_of=PROCESSOR_FILES))

    @torch.no_grad()
    def mask(self, picture: Pixels, boxes_N4: Tensor) -> Mask:
        """Returns bool[height, width], the union of what fills the boxes; all False without boxes.

        Args:
            picture: uint8[height, width, 3].
            boxes_N4: float[boxes, 4], left, top, right and bottom in pixels of the picture.
        """
        if not len(boxes_N4):
            return np.zeros(picture.shape[:2], np.bool_)
        embedding, original_2, resized_2 = self._embedding(picture)
        scale_2 = (resized_2 / original_2).flip(0)  # Height comes before width there, x before y in boxes.
        boxes = (boxes_N4.cpu() * scale_2.repeat(2)).to(self.model.device, self.model.dtype)
        output = self.model(image_embeddings=embedding, input_boxes=boxes[None], multimask_output=False)
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


class BoundMasks(Protocol):
    """A teacher that has seen the picture or the video; what `judges.episode_rewards.argos.MaskTeacher` asks for."""

    def __call__(self, label: str, frame: int | None, time_s: float | None) -> Mask | None:
        """Returns bool[height, width], all False for no such thing; None when it cannot tell."""
        ...


class GroundingDinoSam:
    """The teacher of masks for pictures that nobody has exact masks of.

    Args:
        detector: Finds boxes.
        segmenter: Fills them.
    """

    def __init__(self, detector: GroundingDino, segmenter: Sam) -> None:
        self.detector, self.segmenter = detector, segmenter

    @classmethod
    def from_pretrained(
        cls,
        detector: str | Path,
        segmenter: str | Path,
        *,
        config: DetectionConfig | None = None,
        device: str | torch.device = "cpu",
    ) -> GroundingDinoSam:
        """Returns the teacher of two local directories.

        Args:
            detector: Of a Grounding DINO, such as the published `grounding-dino-tiny`.
            segmenter: Of a SAM, such as the published `sam-vit-base`.
            config: What counts as found.
            device: Where both run.

        Raises:
            EngineUnavailableError: If one of them has no weights, or other ones.
        """
        return cls(
            GroundingDino.from_pretrained(detector, config=config, device=device),
            Sam.from_pretrained(segmenter, device=device),
        )

    def mask(self, picture: Pixels, label: str) -> Mask | None:
        """Returns bool[height, width] of what a label names, all False for no such thing; None if it cannot tell."""
        if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3:
            raise ConfigError(f"Pictures must be uint8[height, width, 3]; got {picture.dtype}{list(picture.shape)}.")
        seen = showable(picture, _MAX_ASPECT_RATIO)
        boxes = self.detector.boxes(seen, label)
        height, width = picture.shape[:2]
        return None if boxes is None else self.segmenter.mask(seen, boxes)[:height, :width]

    def of(self, picture: Pixels) -> BoundMasks:
        """Returns the teacher of one picture; frame and time are passed over.

        Args:
            picture: uint8[height, width, 3].
        """
        return lambda label, frame, time_s: self.mask(picture, label)

    def of_video(self, frames: Sequence[Pixels], times_s: Sequence[float]) -> BoundMasks:
        """Returns the teacher of one video.

        Args:
            frames: Each uint8[height, width, 3]; counted from 1.
            times_s: When each is shown, rising.

        Returns:
            The teacher. A frame goes before a time, a time means the frame nearest to it; without either, and outside
            the video, it cannot tell.

        Raises:
            ConfigError: If there is not one time to each frame.
        """
        if len(frames) != len(times_s) or not len(frames):
            raise ConfigError(f"Expected as many times as frames, at least one; got {len(times_s)} and {len(frames)}.")

        def masks(label: str, frame: int | None, time_s: float | None) -> Mask | None:
            if frame is None and time_s is not None and times_s[0] <= time_s <= times_s[-1]:
                frame = int(np.abs(np.asarray(times_s) - time_s).argmin()) + 1
            if frame is None or not 1 <= frame <= len(frames):
                return None
            return self.mask(frames[frame - 1], label)

        return masks
