"""DreamSim (Fu et al., 2023): a similarity trained on human judgements, read by its authors' own package."""

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

from agents.perception.similarity.weights import WeightsUnavailableError, require_files

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
"""What each kind of DreamSim needs in its folder; the package would download what is not there."""

_REMEDY = (
    "Unpack the checkpoint of DreamSim's release page there (dreamsim_<kind>_checkpoint.zip), or copy the folder that "
    "dreamsim(pretrained=True, cache_dir=...) fills on a machine with a network; the kinds with DINO also need what "
    "torch.hub keeps in it."
)


class DreamSimScorer:
    """One minus DreamSim's distance, cut to 0 to 1.

    The weights are loaded with the first pair of pictures and shared by all scorers of a process; copies and pickles
    carry the folder's name only.

    Args:
        folder: The `cache_dir` of the package, with its checkpoint unpacked.
        kind: Which DreamSim, a key of `REQUIRED_FILES`; the paper's default is the ensemble of three.

    Raises:
        ValueError: If the kind is unknown.
        WeightsUnavailableError: If a file is missing.

    Source: VAGEN, Appendix A.6 and Table 20.
    """

    name = "dreamsim"

    def __init__(self, folder: str | Path, kind: str = "ensemble") -> None:
        if kind not in REQUIRED_FILES:
            raise ValueError(f"kind must be one of {', '.join(REQUIRED_FILES)}; got {kind!r}.")
        self.folder, self.kind = Path(folder), kind
        require_files(self.name, self.folder, REQUIRED_FILES[kind], _REMEDY)

    def similarity(self, target: NDArray[np.uint8], drawing: NDArray[np.uint8]) -> float:
        """Returns how alike two pictures are.

        Args:
            target: uint8[H, W, 3].
            drawing: uint8[H, W, 3].

        Returns:
            From 0 to 1.

        Raises:
            WeightsUnavailableError: If the package `dreamsim` is not installed.
        """
        model, preprocess = _load(self.folder, self.kind)
        pictures = [preprocess(Image.fromarray(picture)) for picture in (target, drawing)]
        with torch.inference_mode():
            distance = float(model(*pictures))
        return min(1.0, max(0.0, 1.0 - distance)) if math.isfinite(distance) else 0.0


@lru_cache(maxsize=2)
def _load(folder: Path, kind: str) -> tuple[Any, Any]:
    """Returns the model of a folder and what prepares its pictures, once per process."""
    try:
        package = importlib.import_module("dreamsim")
    except ImportError as error:
        raise WeightsUnavailableError(
            f"The scorer 'dreamsim' needs the package dreamsim: pip install dreamsim ({error})."
        ) from error
    model, preprocess = package.dreamsim(pretrained=True, device="cpu", cache_dir=str(folder), dreamsim_type=kind)
    return model, preprocess
