"""Train, validation and test levels that cannot overlap.

Two independent guards. *Seeds*: each split owns a range of seeds, so no evaluation seed is ever a training
seed. *Content*: a level belongs to exactly one split by a hash of what it contains, and generators reject
levels of other splits; even a shared seed would give different levels. The content hash is BLAKE2, stable
across processes, hosts and `PYTHONHASHSEED`.
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
"""Seeds each split owns. Every seed fits a signed 32-bit integer."""

_NUM_BUCKETS = 10
_VAL_BUCKET, _TEST_BUCKET = 0, 1


def split_of(level_key: bytes) -> str:
    """Returns the one split a level's content, as canonical bytes, belongs to: 80 % train, 10 % val, 10 % test."""
    bucket = int.from_bytes(hashlib.blake2b(level_key, digest_size=8).digest(), "little") % _NUM_BUCKETS
    return {_VAL_BUCKET: "val", _TEST_BUCKET: "test"}.get(bucket, "train")


def seed_index(seed: int, split: str) -> int:
    """Returns which of a split's seeds a seed is, from 0; a seed that the split does not own counts as itself.

    Worlds whose levels are listed (a benchmark's items) give seed i of the split its item i.
    """
    owned = SPLIT_SEEDS[require_choice("split", split, SPLITS)]
    return seed - owned.start if seed in owned else seed


def level_name(seed: int) -> str:
    """Returns a level for people: `"test level 4"`, `"validation level 0"`, or `"level 7"` of any other seed."""
    for split, name in (("val", "validation level"), ("test", "test level")):
        if seed in SPLIT_SEEDS[split]:
            return f"{name} {seed_index(seed, split)}"
    return f"level {seed}"


def split_seeds(split: str, num_seeds: int, *, start: int = 0) -> Iterator[int]:
    """Yields `num_seeds` consecutive seeds of a split.

    Args:
        split: `"train"`, `"val"` or `"test"`.
        num_seeds: How many.
        start: Index of the first within the split.

    Yields:
        Seeds for `env.reset(seed=...)`.

    Raises:
        ConfigError: If the split is unknown or has fewer seeds than asked for.
    """
    owned = SPLIT_SEEDS[require_choice("split", split, SPLITS)]
    if start < 0 or num_seeds < 0 or start + num_seeds > len(owned):
        raise ConfigError(
            f"Split {split!r} owns {len(owned)} seeds; cannot give {num_seeds} from index {start}. "
            "Ask for fewer or start lower."
        )
    yield from owned[start : start + num_seeds]
