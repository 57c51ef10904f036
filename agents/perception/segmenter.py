"""What fills a box of a picture, or lies under a point: Segment Anything (Kirillov et al. 2023)."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from transformers import SamModel
from transformers.models.sam.image_processing_pil_sam import SamImageProcessorPil

from agents.perception.detector import Pixels
from agents.perception.weights import PROCESSOR_FILES, load_model, load_part

Mask = npt.NDArray[np.bool_]
_MAX_PICTURES = 4
"""Pictures whose embedding is kept: siblings are judged one after another."""


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
