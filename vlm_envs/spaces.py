"""A Gymnasium space for free text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from gymnasium import spaces

from vlm_envs.errors import require_positive

_SAMPLE_ALPHABET = "abcdefghijklmnopqrstuvwxyzABCXYZ0123456789 ,.<>/_#{}[]()\"'\\\n\té世🙂"


class FreeText(spaces.Space[str]):
    """Any Unicode string, the empty one included, up to a maximum length.

    Gymnasium's `Text` is alphanumeric and at least one character long by default, and its shared-memory buffers
    corrupt what they hold. `FreeText` has no buffer form, so vector environments keep the values in tuples.

    Args:
        max_length: Longest string contained, in characters.
        seed: Seed of `sample`.

    Raises:
        ConfigError: If `max_length` is not a positive integer.
    """

    def __init__(self, max_length: int = 1_000_000, *, seed: int | np.random.Generator | None = None) -> None:
        self.max_length = require_positive("max_length", max_length)
        super().__init__(shape=None, dtype=str, seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """Text has no array form."""
        return False

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> str:
        """Returns a short random string, tags and non-ASCII characters included.

        Args:
            mask: Not supported; must be None.
            probability: Not supported; must be None.

        Returns:
            A string of 0 to 32 characters.

        Raises:
            ValueError: If a mask or a probability is given.
        """
        if mask is not None or probability is not None:
            raise ValueError("FreeText.sample takes no mask and no probability; sample without them.")
        length = int(self.np_random.integers(0, min(32, self.max_length) + 1))
        picks = self.np_random.integers(0, len(_SAMPLE_ALPHABET), size=length)
        return "".join(_SAMPLE_ALPHABET[i] for i in picks)

    def contains(self, x: Any) -> bool:
        """Returns whether `x` is a string no longer than `max_length`."""
        return isinstance(x, str) and len(x) <= self.max_length

    def to_jsonable(self, sample_n: Iterable[str]) -> list[str]:
        """Returns the strings as a list; JSON holds any of them."""
        return list(sample_n)

    def from_jsonable(self, sample_n: list[Any]) -> list[str]:
        """Returns the list of strings that `to_jsonable` gave."""
        return [str(text) for text in sample_n]

    def __repr__(self) -> str:
        """Returns the constructor call."""
        return f"FreeText(max_length={self.max_length})"

    def __eq__(self, other: object) -> bool:
        """Two free-text spaces are equal when their limits are."""
        return isinstance(other, FreeText) and other.max_length == self.max_length
