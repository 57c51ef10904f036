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
from vlm_envs.errors import ConfigError
from vlm_envs.validation import require_positive

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


class GroundingDino:
    """Finds boxes of what a label names."""

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
        size = picture.shape[:2]
        output.logits, output.pred_boxes = output.logits.float(), output.pred_boxes.float()
        (found,) = self.image_processor.post_process_object_detection(output, self.config.threshold, [size])
        best_N = found["scores"].argsort(descending=True, stable=True)[: self.config.max_boxes]
        boxes_N4: Tensor = found["boxes"][best_N]
        return boxes_N4.clamp(min=0.0).minimum(boxes_N4.new_tensor(size[::-1] * 2))
