"""Boxes of what a label names: Grounding DINO (Liu et al. 2023)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from transformers import AutoTokenizer, GroundingDinoForObjectDetection
from transformers.models.grounding_dino.image_processing_pil_grounding_dino import GroundingDinoImageProcessorPil

from agents.perception.weights import PROCESSOR_FILES, TOKENIZER_FILES, load_model, load_part
from vlm_envs.errors import ConfigError, require_positive

Pixels = npt.NDArray[np.uint8]
_NOT_WORDS = re.compile(r"[^\w\s'-]|_")


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
            WeightsUnavailableError: If there are no weights, or not those of a Grounding DINO.
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
