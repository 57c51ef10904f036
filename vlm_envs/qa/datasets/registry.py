"""Every data set of questions about pictures, by the name that ids of its samples begin with."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

from vlm_envs.qa.datasets.gqa import GQA
from vlm_envs.qa.datasets.hrbench import HRBENCH
from vlm_envs.qa.datasets.image_folder import IMAGE_FOLDER
from vlm_envs.qa.datasets.pixmo_count import PIXMO_COUNT
from vlm_envs.qa.datasets.source import Dataset, DatasetSource, opened
from vlm_envs.qa.datasets.tallyqa import TALLYQA
from vlm_envs.qa.datasets.treevgr import TREEVGR
from vlm_envs.qa.datasets.video_r1 import MAX_FRAMES, video_r1
from vlm_envs.qa.datasets.vsr import VSR
from vlm_envs.qa.datasets.vstar import VSTAR

DATASETS: Mapping[str, Dataset] = {
    "vstar": VSTAR,
    "hrbench": HRBENCH,
    "vsr": VSR,
    "tallyqa": TALLYQA,
    "gqa": GQA,
    "treevgr": TREEVGR,
    "pixmo_count": PIXMO_COUNT,
    "image_folder": IMAGE_FOLDER,
}

VIDEO_DATASETS: Mapping[str, Dataset] = {"video_r1": video_r1()}
"""Every data set of questions about videos, likewise."""

dataset_source = functools.partial(opened, DATASETS)
"""Returns the samples of a user's copy of one of them; see `vlm_envs.qa.datasets.source.opened`."""


def video_source(
    name: str,
    folder: str | Path,
    *,
    is_benchmark: bool | None = None,
    train_on_all: bool = False,
    max_frames: int = MAX_FRAMES,
) -> DatasetSource:
    """Returns the same of videos, of each of which at most so many frames are shown."""
    datasets = {"video_r1": video_r1(max_frames)}
    return opened(datasets, name, folder, is_benchmark=is_benchmark, train_on_all=train_on_all)
