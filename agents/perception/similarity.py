"""Learned image similarities for `VLM/SVG-v0`: DreamSim and DINO, with weights from the user's disk.

The factories take no arguments, so that a world can be given their names:
`gym.make("VLM/SVG-v0", scorer="agents.perception.similarity:dreamsim")`; the same goes for `second_scorer`. Weights are
loaded for the first pair of images and shared by all scorers of a process; copies and pickles contain only the folder's
name.

Source: VAGEN, Appendix A.6 and Table 20.
"""

from __future__ import annotations

import importlib
import math
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from transformers import AutoModel

from agents.perception.weights import WeightsUnavailableError, folder_of, require_files
from vlm_envs.validation import require_choice
from vlm_envs.worlds.svg.svg_scorers import Scorer

DINO_VARIABLE, DREAMSIM_VARIABLE = "VLM_ENVS_DINO", "VLM_ENVS_DREAMSIM"
"""Environment variables that name the folders with weights."""

INPUT_PX = 224
_WITHOUT = "Without weights, use scorer='structural'."
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_DINO_REMEDY = (
    "It should hold config.json and model.safetensors of a vision transformer as transformers saves it, such as a "
    "copy of facebook/dino-vits16 (VAGEN uses a small DINO)."
)
REQUIRED_FILES: dict[str, tuple[str, ...]] = {
    "ensemble": (
        "dino_vitb16_pretrain.pth",
        "clip_vitb16_pretrain.pth.tar",
        "open_clip_vitb16_pretrain.pth.tar",
        "ensemble_lora",
    ),
    "dino_vitb16": ("dino_vitb16_pretrain.pth", "dino_vitb16_single_lora"),
    "clip_vitb32": ("clip_vitb32_pretrain.pth.tar", "clip_vitb32_single_lora"),
    "open_clip_vitb32": ("open_clip_vitb32_pretrain.pth.tar", "open_clip_vitb32_single_lora"),
}
"""Files that each kind of DreamSim needs in its folder; the package would download missing ones."""

_DREAMSIM_REMEDY = (
    "Unpack the checkpoint from DreamSim's release page there (dreamsim_<kind>_checkpoint.zip), or copy the folder "
    "that dreamsim(pretrained=True, cache_dir=...) fills on a machine with network access; the kinds with DINO also "
    "need the files that torch.hub stores in it."
)


def dino() -> Scorer:
    """Returns the DINO scorer with the weights in the folder that `VLM_ENVS_DINO` names.

    Raises:
        WeightsUnavailableError: If there are no such weights.
    """
    return DinoScorer(folder_of(DINO_VARIABLE, "The scorer 'dino'", without=_WITHOUT))


def dreamsim() -> Scorer:
    """Returns the DreamSim scorer with the weights in the folder that `VLM_ENVS_DREAMSIM` names.

    Raises:
        WeightsUnavailableError: If there are no such weights.
    """
    return DreamSimScorer(folder_of(DREAMSIM_VARIABLE, "The scorer 'dreamsim'", without=_WITHOUT))


class DinoScorer:
    """Cosine similarity of the class tokens of a vision transformer (Caron et al., 2021); negative values become 0.

    Args:
        folder: A folder that `AutoModel.from_pretrained` reads, a ViT such as DINO ViT-S/16.

    Raises:
        WeightsUnavailableError: If the folder holds no model.
    """

    name = "dino"

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        require_files(self.folder, ["config.json"], _DINO_REMEDY)

    def similarity(self, target: NDArray[np.uint8], drawing: NDArray[np.uint8]) -> float:
        """Returns the similarity of two images, uint8[H, W, 3] each, from 0 to 1."""
        images_BCHW = torch.cat([normalised(target), normalised(drawing)])
        with torch.inference_mode():
            features_BD = _load_dino(self.folder)(pixel_values=images_BCHW).last_hidden_state[:, 0]
        return _unit(float(torch.nn.functional.cosine_similarity(features_BD[:1], features_BD[1:])))


def normalised(picture: NDArray[np.uint8]) -> torch.Tensor:
    """Returns an image as input of a vision transformer, float32[1, 3, 224, 224]."""
    picture_BCHW = torch.from_numpy(np.array(picture)).permute(2, 0, 1)[None].float() / 255
    size = (INPUT_PX, INPUT_PX)
    picture_BCHW = torch.nn.functional.interpolate(picture_BCHW, size, mode="bicubic", antialias=True)
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in (_MEAN, _STD))
    return (picture_BCHW.clamp(0, 1) - mean) / std


class DreamSimScorer:
    """One minus the distance of DreamSim (Fu et al., 2023), computed by its authors' package, clipped to 0 to 1.

    Args:
        folder: The `cache_dir` of the package, with the unpacked checkpoint.
        kind: Variant of DreamSim, a key of `REQUIRED_FILES`; the paper's default is the ensemble of three.

    Raises:
        ConfigError: If the kind is unknown.
        WeightsUnavailableError: If a file is missing.
    """

    name = "dreamsim"

    def __init__(self, folder: str | Path, kind: str = "ensemble") -> None:
        self.folder, self.kind = Path(folder), require_choice("kind", kind, REQUIRED_FILES)
        require_files(self.folder, REQUIRED_FILES[kind], _DREAMSIM_REMEDY)

    def similarity(self, target: NDArray[np.uint8], drawing: NDArray[np.uint8]) -> float:
        """Returns the similarity of two images, uint8[H, W, 3] each, from 0 to 1.

        Raises:
            WeightsUnavailableError: If the package `dreamsim` is not installed.
        """
        model, preprocess = _load_dreamsim(self.folder, self.kind)
        images = [preprocess(Image.fromarray(image)) for image in (target, drawing)]
        with torch.inference_mode():
            return _unit(1.0 - float(model(*images)))


def _unit(similarity: float) -> float:
    """Clips a similarity to 0 to 1; returns 0 if it is not finite."""
    return min(1.0, max(0.0, similarity)) if math.isfinite(similarity) else 0.0


@lru_cache(maxsize=2)
def _load_dino(folder: Path) -> Any:
    """Returns the model of a folder, once per process."""
    # Float32 whatever the checkpoint's type: in bfloat16 different drawings have equal cosines
    model: Any = AutoModel.from_pretrained(folder, local_files_only=True, dtype=torch.float32)
    return model.eval()


@lru_cache(maxsize=2)
def _load_dreamsim(folder: Path, kind: str) -> tuple[Any, Any]:
    """Returns the model of a folder and its image preprocessing, once per process."""
    try:
        package = importlib.import_module("dreamsim")
    except ImportError as error:
        raise WeightsUnavailableError(
            f"The scorer 'dreamsim' needs the package dreamsim: pip install dreamsim ({error})."
        ) from error
    model, preprocess = package.dreamsim(pretrained=True, device="cpu", cache_dir=str(folder), dreamsim_type=kind)
    return model.float(), preprocess
