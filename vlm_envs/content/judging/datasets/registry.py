"""Judged responses from a user's local copy, by the name of the data set."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from vlm_envs.content.judging.datasets.armbench import RELEASED, armbench_rows, judged_rows
from vlm_envs.content.judging.datasets.constraints import mm_ifeval_rows
from vlm_envs.content.judging.datasets.preferences import llava_critic_rows, pair_rows, vl_rewardbench_rows
from vlm_envs.content.judging.datasets.reading import DataFolder
from vlm_envs.content.judging.datasets.rows import JudgedRow, ShownRow, shown_rows
from vlm_envs.qa.datasets.dataset_rows import BrokenRowError
from vlm_envs.qa.datasets.dataset_source import DatasetSource
from vlm_envs.qa.datasets.dataset_splits import shared, whole_split
from vlm_envs.validation import require_choice


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """How a data set is read.

    Attributes:
        read: Reads its rows.
        is_benchmark: Whether it was published to measure with, not to train on.
        published: Patterns of the files it was published in.
    """

    read: Callable[[DataFolder], Iterable[JudgedRow | BrokenRowError]]
    is_benchmark: bool
    published: tuple[str, ...] = ()


_KINDS = {
    "vl_rewardbench": _Kind(
        read=vl_rewardbench_rows,
        is_benchmark=True,
        published=("data/test-*.parquet", "test-*.parquet", "data.jsonl"),
    ),
    "llava_critic": _Kind(
        read=llava_critic_rows, is_benchmark=False, published=("pairwise/train-*.parquet", "train-*.parquet")
    ),
    "mm_ifeval": _Kind(read=mm_ifeval_rows, is_benchmark=True),
    "armbench_vl": _Kind(read=armbench_rows, is_benchmark=True, published=(RELEASED,)),
    "judged": _Kind(read=judged_rows, is_benchmark=False),
    "pairs": _Kind(read=pair_rows, is_benchmark=False),
}

DATASETS = tuple(_KINDS)


def judging_dataset(
    kind: str,
    folder: str | Path,
    *,
    reverse_order: bool = False,
    is_benchmark: bool | None = None,
    train_on_all: bool = False,
) -> DatasetSource:
    """Opens a local copy of a data set.

    Args:
        kind: One of `DATASETS`.
        folder: Where the copy is.
        reverse_order: Whether the candidates come in the opposite order, in rows of the other order's ids, too. Without
            it a row comes in the order that its id says.
        is_benchmark: Whether all rows are in the split `test`; False divides them by a hash of their picture, or of
            their text where they have none, so that one can train on them. None for what the data set is: all but
            `llava_critic`, `judged` and `pairs` are benchmarks.
        train_on_all: Whether all rows are in the split `train`.

    Returns:
        A source of its rows.

    Raises:
        ConfigError: If there is no such kind, folder or file, `is_benchmark` comes beside `train_on_all`, or every row
            is broken. Some broken ones are left out, named with file and row, and counted.
    """
    known = _KINDS[require_choice("dataset", kind, DATASETS)]
    whole = whole_split(kind, known.is_benchmark, is_benchmark=is_benchmark, train_on_all=train_on_all)

    def load() -> DatasetSource:
        data = DataFolder(folder, kind, known.published)
        rows = tuple(known.read(data))
        listed, others = (
            [*shown_rows(data, rows, whole_split=whole, is_reversed=order)]
            for order in (reverse_order, not reverse_order)
        )
        unlisted = {
            other.key: row if reverse_order else other
            for row, other in zip(listed, others, strict=True)
            if isinstance(row, ShownRow) and isinstance(other, ShownRow)
        }
        is_whole = whole == "test"
        return DatasetSource(kind, listed, unlisted=unlisted, is_benchmark=is_whole, train_on_all=train_on_all)

    return shared(kind, folder, load, reverse_order, whole)
