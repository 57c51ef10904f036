"""Every data set of questions about pictures, by the name that ids of its samples begin with."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from vlm_envs.qa.datasets.gqa import GQA
from vlm_envs.qa.datasets.hrbench import HRBENCH
from vlm_envs.qa.datasets.pixmo_count import PIXMO_COUNT
from vlm_envs.qa.datasets.source import Dataset, opened
from vlm_envs.qa.datasets.tallyqa import TALLYQA
from vlm_envs.qa.datasets.treevgr import TREEVGR
from vlm_envs.qa.datasets.video_r1 import VIDEO_R1
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
}

VIDEO_DATASETS: Mapping[str, Dataset] = {"video_r1": VIDEO_R1}
"""Every data set of questions about videos, likewise."""

dataset_source = functools.partial(opened, DATASETS)
"""Returns the samples of a user's copy of one of them; see `vlm_envs.qa.datasets.source.opened`."""

video_source = functools.partial(opened, VIDEO_DATASETS)
"""The same of videos."""
