"""Loaders for a user's own copies of public data sets; nothing is fetched from anywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from vlm_envs.errors import ConfigError, require_choice
from vlm_envs.qa.datasets.gqa import gqa
from vlm_envs.qa.datasets.hrbench import hrbench
from vlm_envs.qa.datasets.sharing import shared
from vlm_envs.qa.datasets.table import DatasetSource
from vlm_envs.qa.datasets.tallyqa import tallyqa
from vlm_envs.qa.datasets.treevgr import treevgr
from vlm_envs.qa.datasets.vsr import vsr
from vlm_envs.qa.datasets.vstar import vstar

DATASETS: Mapping[str, Callable[..., DatasetSource]] = {
    "vstar": vstar,
    "hrbench": hrbench,
    "vsr": vsr,
    "tallyqa": tallyqa,
    "gqa": gqa,
    "treevgr": treevgr,
}
"""Every data set by the name that ids of its samples begin with."""

DIVIDED = ("vstar", "hrbench", "treevgr")
"""Those whose files say nothing of splits: a benchmark is all `test`, others are divided by a hash."""


def dataset_source(kind: str, folder: str | Path, *, is_benchmark: bool | None = None) -> DatasetSource:
    """Returns the samples of a user's copy of a data set.

    Args:
        kind: A key of `DATASETS`.
        folder: Where the copy lies; its module says how it is laid out.
        is_benchmark: Whether all of it is in the split `test`; False divides it by a hash of its images, so that one
            can train on it. None for what it was published as: `vstar` and `hrbench` are benchmarks, `treevgr` is not.

    Raises:
        ConfigError: If there is no such data set, the folder holds none, or a row of it is broken; if `is_benchmark`
            is given for one with splits of its own.
    """
    load = DATASETS[require_choice("data set", kind, DATASETS)]
    if is_benchmark is None:
        return shared(kind, folder, lambda: load(folder))
    if kind not in DIVIDED:
        raise ConfigError(
            f"{kind!r} has splits of its own, by its files; got is_benchmark={is_benchmark}. Leave is_benchmark out."
        )
    return shared(kind, folder, lambda: load(folder, is_benchmark=is_benchmark), is_benchmark)


__all__ = ["DATASETS", "DatasetSource", "dataset_source"]
