"""Train, validation, and test levels that cannot overlap.

There are two independent safeguards. *Seeds*: each split owns a range of seeds, so no evaluation seed is ever
a training seed. *Content*: a level belongs to exactly one split by a hash of its content, and generators
reject levels of other splits, so even a shared seed would give different levels. The content hash is BLAKE2,
stable across processes, hosts, and `PYTHONHASHSEED`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from vlm_envs.errors import ConfigError
from vlm_envs.validation import require_choice

SPLITS = ("train", "val", "test")

SPLIT_SEEDS: dict[str, range] = {
    "train": range(0, 1_000_000_000),
    "val": range(1_000_000_000, 1_500_000_000),
    "test": range(1_500_000_000, 2_000_000_000),
}
"""Seeds owned by each split. Every seed fits a signed 32-bit integer."""

_NUM_BUCKETS = 10
_VAL_BUCKET, _TEST_BUCKET = 0, 1


def split_of(level_key: bytes) -> str:
    """Returns the only split of a level's content, given as canonical bytes: 80% train, 10% val, 10% test."""
    bucket = int.from_bytes(hashlib.blake2b(level_key, digest_size=8).digest(), "little") % _NUM_BUCKETS
    return {_VAL_BUCKET: "val", _TEST_BUCKET: "test"}.get(bucket, "train")


def seed_index(seed: int, split: str) -> int:
    """Returns the index of a seed within its split; for a seed outside the split, the seed itself.

    Worlds whose levels are listed (a benchmark's items) use item i for seed i of the split.
    """
    owned = SPLIT_SEEDS[require_choice("split", split, SPLITS)]
    return seed - owned.start if seed in owned else seed


def level_name(seed: int) -> str:
    """Returns a level's name for people: `"test level 4"`, `"validation level 0"`, or `"level 7"` for other seeds."""
    for split, name in (("val", "validation level"), ("test", "test level")):
        if seed in SPLIT_SEEDS[split]:
            return f"{name} {seed_index(seed, split)}"
    return f"level {seed}"


def split_seeds(split: str, num_seeds: int, *, start: int = 0) -> Iterator[int]:
    """Yields `num_seeds` consecutive seeds of a split.

    Args:
        split: `"train"`, `"val"`, or `"test"`.
        num_seeds: Number of seeds.
        start: Index of the first one within the split.

    Yields:
        Seeds for `env.reset(seed=...)`.

    Raises:
        ConfigError: If the split is unknown or has too few seeds.
    """
    owned = SPLIT_SEEDS[require_choice("split", split, SPLITS)]
    if start < 0 or num_seeds < 0 or start + num_seeds > len(owned):
        raise ConfigError(
            f"Split {split!r} has {len(owned)} seeds; cannot return {num_seeds} from index {start}. "
            "Use fewer or a lower start."
        )
    yield from owned[start : start + num_seeds]
