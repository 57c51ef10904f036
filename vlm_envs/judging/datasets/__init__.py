"""Judged responses from a user's local copy of public data; nothing is downloaded.

| kind | file in the folder | what a row has |
|---|---|---|
| `vl_rewardbench` | `vl_rewardbench.jsonl` | `id`, `query`, `response` (two), `image`, `human_ranking` |
| `llava_critic` | `llava_critic.json` | `id`, `image`, `conversations` of a comparison and its verdict |
| `mm_ifeval` | `mm_ifeval.jsonl` | `id`, `image`, `question`, `constraints`, and a model's `prediction` |
| `armbench_vl` | `armbench_vl.jsonl` | `id`, `track`, `question`, `responses`, `answer`, `image` or `document` |

Files end in `.jsonl` (a row a line) or `.json` (a list of rows). An `image` is a file of the folder or base64.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from vlm_envs.errors import require_choice
from vlm_envs.inquiries.datasets.sharing import shared
from vlm_envs.judging.datasets.armbench import armbench_rows
from vlm_envs.judging.datasets.constraints import mm_ifeval_rows
from vlm_envs.judging.datasets.preferences import llava_critic_rows, vl_rewardbench_rows
from vlm_envs.judging.datasets.reading import DataFolder
from vlm_envs.judging.datasets.rows import JudgedRow, JudgedRows

_KINDS: dict[str, tuple[Callable[[DataFolder], tuple[JudgedRow, ...]], bool]] = {
    "vl_rewardbench": (vl_rewardbench_rows, True),
    "llava_critic": (llava_critic_rows, False),
    "mm_ifeval": (mm_ifeval_rows, True),
    "armbench_vl": (armbench_rows, True),
}
"""What reads the rows of each kind, and whether it is a benchmark."""

DATASETS = tuple(_KINDS)


def judging_dataset(
    kind: str, folder: str | Path, *, reverse_order: bool = False, is_benchmark: bool | None = None
) -> JudgedRows:
    """Opens a local copy of a data set.

    Args:
        kind: One of `DATASETS`.
        folder: Where the copy is.
        reverse_order: Whether the candidates come in the opposite order.
        is_benchmark: Whether all rows are in the split `test`, as is the default for all but `llava_critic`; other
            rows are split by a hash of their picture, or of their text where they have none.

    Returns:
        A source of its rows.

    Raises:
        ConfigError: If there is no such kind, folder or file, or a row is broken; it names file and row.
    """
    read, is_one = _KINDS[require_choice("kind", kind, DATASETS)]

    def load() -> JudgedRows:
        data = DataFolder(folder, kind)
        return JudgedRows(
            data=data,
            rows=read(data),
            reverse_order=reverse_order,
            is_benchmark=is_one if is_benchmark is None else is_benchmark,
        )

    return shared(kind, folder, load, reverse_order, is_benchmark)
