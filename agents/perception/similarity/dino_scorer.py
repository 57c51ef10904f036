"""Similarity of DINO features (Caron et al., 2021): the cosine of two pictures' class tokens."""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModel

from agents.perception.similarity.weights import require_files

INPUT_PX = 224
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_REMEDY = (
    "It should hold config.json and model.safetensors of a vision transformer as transformers saves it, such as a "
    "copy of facebook/dino-vits16 (VAGEN uses a small DINO)."
)


class DinoScorer:
    """Cosine similarity of the class tokens of a vision transformer; negative ones count as 0.

    The weights are loaded with the first pair of pictures and shared by all scorers of a process; copies and pickles
    carry the folder's name only.

    Args:
        folder: A folder that `AutoModel.from_pretrained` reads, a ViT such as DINO ViT-S/16.

    Raises:
        WeightsUnavailableError: If the folder holds no model.

    Source: VAGEN, Appendix A.6, "a small version of the DINO model".
    """

    name = "dino"

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        require_files(self.name, self.folder, ["config.json"], _REMEDY)

    def similarity(self, target: NDArray[np.uint8], drawing: NDArray[np.uint8]) -> float:
        """Returns how alike two pictures are.

        Args:
            target: uint8[H, W, 3].
            drawing: uint8[H, W, 3].

        Returns:
            From 0 to 1.
        """
        model = _load(self.folder)
        pictures_BCHW = torch.cat([normalised(target), normalised(drawing)])
        with torch.inference_mode():
            features_BD = model(pixel_values=pictures_BCHW).last_hidden_state[:, 0]
        cosine = float(torch.nn.functional.cosine_similarity(features_BD[:1], features_BD[1:]))
        return min(1.0, max(0.0, cosine)) if math.isfinite(cosine) else 0.0


def normalised(picture: NDArray[np.uint8]) -> torch.Tensor:
    """Returns a picture as a vision transformer takes it, float32[1, 3, 224, 224]."""
    picture_BCHW = torch.from_numpy(np.array(picture)).permute(2, 0, 1)[None].float() / 255
    size = (INPUT_PX, INPUT_PX)
    picture_BCHW = torch.nn.functional.interpolate(picture_BCHW, size, mode="bicubic", antialias=True)
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in (_MEAN, _STD))
    return (picture_BCHW.clamp(0, 1) - mean) / std


@lru_cache(maxsize=2)
def _load(folder: Path) -> Any:
    """Returns the model of a folder, once per process."""
    model: Any = AutoModel.from_pretrained(folder, local_files_only=True)
    return model.eval()
