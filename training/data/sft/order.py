"""Which rows of data sets are held out, and in what order the others are shown."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from training.data.sft.conversations import Conversation
from training.data.sft.sets import DataSet
from vlm_envs.errors import ConfigError


def with_held_out(sets: Sequence[DataSet], share: float, seed: int) -> list[DataSet]:
    """Returns data sets with a share of their rows held out.

    Rows that show the same pictures, or without any say the same, are held out together, in whichever set they are:
    what the evaluation loss is of was never learnt from. Where the sets lie as a whole changes nothing.

    Args:
        sets: With all rows to train on.
        share: Of all rows together, in [0, 1); it is met as nearly as whole groups allow without passing it.
        seed: Decides which.

    Raises:
        ConfigError: If nothing is left to train on, of one of the sets.
    """
    root = _common_root(sets)
    groups = [[_group(row, root, seed) for row in each.rows] for each in sets]
    sizes = Counter(chain.from_iterable(groups))
    num_left, chosen = round(share * sizes.total()), set[bytes]()
    for key in sorted(sizes):
        if sizes[key] <= num_left:
            chosen.add(key)
            num_left -= sizes[key]
    split = []
    for each, keys in zip(sets, groups, strict=True):
        kept = tuple(row for row, key in zip(each.rows, keys, strict=True) if key not in chosen)
        held_out = tuple(row for row, key in zip(each.rows, keys, strict=True) if key in chosen)
        if not kept:
            raise ConfigError(
                f"--eval-share {share:g} holds out all {len(each.rows)} rows of {each.source.path}. Lower it, use "
                "--eval-share 0, or give more rows."
            )
        split.append(replace(each, rows=kept, held_out=held_out))
    return split


def row_order(sizes: Sequence[int], weights: Sequence[float], seed: int) -> Iterator[tuple[int, int]]:
    """Yields the set and the row that come next, without end; the same for the same seed.

    An epoch shows each row of a set of weight w so many times: all rows of the set, in a new order each time, before
    any comes again. With a weight of 0.5 it shows one half of the set, and the next epoch the other. Sets are mixed
    within an epoch.

    Args:
        sizes: Rows of each set, at least one.
        weights: Of each set, above 0.
        seed: Decides the order.
    """
    epoch = 0
    while True:
        chosen = [
            (number, row)
            for number, (size, weight) in enumerate(zip(sizes, weights, strict=True))
            for row in _rows_of_epoch(size, weight, epoch, (seed, number))
        ]
        for index in np.random.default_rng((seed, epoch)).permutation(len(chosen)):
            yield chosen[index]
        epoch += 1


def _rows_of_epoch(size: int, weight: float, epoch: int, key: tuple[int, int]) -> Iterator[int]:
    """Yields what an epoch shows of a set: its part of orders of the whole set, one behind the other."""
    order, number = np.arange(0), -1
    for place in range(round(weight * size * epoch), round(weight * size * (epoch + 1))):
        if place // size != number:
            number = place // size
            order = _shuffled(size, (*key, number))
        yield int(order[place % size])


def _shuffled(size: int, key: tuple[int, ...]) -> npt.NDArray[np.int64]:
    return np.random.default_rng(key).permutation(size)


def _common_root(sets: Sequence[DataSet]) -> Path:
    """Returns the folder that all pictures of all sets lie in."""
    folders = [str(path.resolve().parent) for each in sets for row in each.rows for path in row.pictures]
    return Path(os.path.commonpath(folders)) if folders else Path()


def _group(row: Conversation, root: Path, seed: int) -> bytes:
    """Returns what rows that belong together have in common; sorted, it is in an order that the seed decides."""
    shown = [str(path.resolve().relative_to(root)) for path in row.pictures] or [repr((row.system, row.exchanges))]
    return hashlib.sha256("\n".join([str(seed), *shown]).encode("utf-8", "surrogatepass")).digest()
