"""Loaders for a user's own copies of public data sets; nothing is fetched from anywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from vlm_envs.errors import require_choice
from vlm_envs.inquiries.datasets.gqa import gqa
from vlm_envs.inquiries.datasets.hrbench import hrbench
from vlm_envs.inquiries.datasets.sharing import shared
from vlm_envs.inquiries.datasets.table import DatasetSource
from vlm_envs.inquiries.datasets.tallyqa import tallyqa
from vlm_envs.inquiries.datasets.treevgr import treevgr
from vlm_envs.inquiries.datasets.vsr import vsr
from vlm_envs.inquiries.datasets.vstar import vstar

DATASETS: Mapping[str, Callable[[str | Path], DatasetSource]] = {
    "vstar": vstar,
    "hrbench": hrbench,
    "vsr": vsr,
    "tallyqa": tallyqa,
    "gqa": gqa,
    "treevgr": treevgr,
}
"""Every data set by the name that ids of its samples begin with."""


def dataset_source(kind: str, folder: str | Path) -> DatasetSource:
    """Returns the samples of a user's copy of a data set.

    Args:
        kind: A key of `DATASETS`.
        folder: Where the copy lies; its module says how it is laid out.

    Raises:
        ConfigError: If there is no such data set, the folder holds none, or a row of it is broken.
    """
    load = DATASETS[require_choice("data set", kind, DATASETS)]
    return shared(kind, folder, lambda: load(folder))


__all__ = ["DATASETS", "DatasetSource", "dataset_source"]
