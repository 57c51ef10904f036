"""Seeds and levels of train, val and test never meet."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from itertools import combinations

import pytest

from vlm_envs.errors import ConfigError
from vlm_envs.splits import SPLIT_SEEDS, SPLITS, level_name, split_of, split_seeds


def test_seed_ranges_do_not_meet_and_fit_32_bits() -> None:
    assert set(SPLIT_SEEDS) == set(SPLITS) == {"train", "val", "test"}
    for first, second in combinations(SPLIT_SEEDS.values(), 2):
        assert first.stop <= second.start or second.stop <= first.start
    assert max(owned[-1] for owned in SPLIT_SEEDS.values()) < 2**31


def test_ranges_are_one_half_and_two_quarters_of_two_billion() -> None:
    assert {split: (owned.start, owned.stop) for split, owned in SPLIT_SEEDS.items()} == {
        "train": (0, 1_000_000_000),
        "val": (1_000_000_000, 1_500_000_000),
        "test": (1_500_000_000, 2_000_000_000),
    }


def test_split_seeds_are_consecutive_and_start_where_told() -> None:
    assert list(split_seeds("val", 3)) == [1_000_000_000, 1_000_000_001, 1_000_000_002]
    assert list(split_seeds("test", 2, start=5)) == [1_500_000_005, 1_500_000_006]
    assert list(split_seeds("train", 0)) == []
    assert list(split_seeds("val", 1, start=499_999_999)) == [1_499_999_999]


@pytest.mark.parametrize(("num_seeds", "start"), [(2, 499_999_999), (-1, 0), (1, -1)])
def test_seeds_of_another_split_are_never_given(num_seeds: int, start: int) -> None:
    with pytest.raises(ConfigError, match="has 500000000 seeds"):
        list(split_seeds("val", num_seeds, start=start))


def test_unknown_split_suggests_the_one_meant() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'train'"):
        list(split_seeds("trian", 1))


def test_split_of_is_about_80_10_10() -> None:
    counts = Counter(split_of(str(number).encode()) for number in range(20_000))
    # Standard deviations: sqrt(20000 * 0.8 * 0.2) = 57 and sqrt(20000 * 0.1 * 0.9) = 42; five of each
    assert abs(counts["train"] - 16_000) < 285
    assert abs(counts["val"] - 2_000) < 210
    assert abs(counts["test"] - 2_000) < 210


def test_split_of_is_the_same_for_every_hash_seed() -> None:
    program = "from vlm_envs.splits import split_of; print([split_of(bytes([n])) for n in range(50)])"
    here = [split_of(bytes([number])) for number in range(50)]
    path = os.pathsep.join(filter(None, sys.path))
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path}
        out = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True)
        assert out.stdout.decode().strip() == str(here)


@pytest.mark.parametrize(
    ("seed", "name"),
    [(7, "level 7"), (1_000_000_000, "validation level 0"), (1_500_000_004, "test level 4"), (2**31, f"level {2**31}")],
)
def test_levels_are_named_for_people(seed: int, name: str) -> None:
    assert level_name(seed) == name
