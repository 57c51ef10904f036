"""What ids of questions promise, whatever they ask."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from vlm_envs.content.seeded import SeededSource
from vlm_envs.errors import LevelError


def check_ids(source: SeededSource, wrong: Iterable[str], *, such_as: str, finder: SeededSource | None = None) -> None:
    finder = finder or source
    for split in ("train", "val", "test"):
        sample = source.draw(np.random.default_rng(3), split)
        found = finder.find(sample.sample_id)
        assert (found.sample_id, found.digest, found.evidence) == (sample.sample_id, sample.digest, sample.evidence)
        for again, image in zip(found.images, sample.images, strict=True):
            assert np.array_equal(again.picture().pixels, image.picture().pixels)
        assert source.split_of(sample.sample_id) == split
    for each in wrong:
        with pytest.raises(LevelError, match=f"such as {such_as}"):
            source.find(each)
