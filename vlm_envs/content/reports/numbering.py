"""How the pages of a report are numbered, where it is not the usual way: small, from 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vlm_envs.errors import ConfigError
from vlm_envs.validation import require_positive, require_range

MAX_FIRST_LABEL = 900
MIN_LABEL_SIZE, MAX_LABEL_SIZE = 24, 160

_STREAM = 0x1ABE1
"""Makes the first number's chance another than that of what the report says."""


@dataclass(frozen=True, slots=True)
class Numbering:
    """Numbers of a report's pages.

    Attributes:
        first_label: What is printed on the first page of the body.
        label_size: Of large numbers beside the titles, in points; None for the usual ones at the foot.
    """

    first_label: int = 1
    label_size: int | None = None


PLAIN = Numbering()


@dataclass(frozen=True, slots=True)
class Numberings:
    """The numberings that reports may have.

    Attributes:
        lowest: The least number that the body may begin with.
        highest: The largest one.
        label_size: As of `Numbering`.
    """

    lowest: int = 1
    highest: int = 1
    label_size: int | None = None

    @classmethod
    def of(cls, first_label: int | tuple[int, int], label_size: int | None) -> Numberings:
        """Returns those that two arguments ask for.

        Args:
            first_label: What the body begins with, or the least and the largest.
            label_size: Of large numbers, in points, from 24 to 160; None for the usual ones.

        Raises:
            ConfigError: If one of them is not usable.
        """
        lowest, highest = require_range("first_label", first_label)
        if not 1 <= lowest <= highest <= MAX_FIRST_LABEL:
            raise ConfigError(f"first_label must lie between 1 and {MAX_FIRST_LABEL}; got {first_label!r}.")
        if label_size is not None:
            require_positive("label_size", label_size, minimum=MIN_LABEL_SIZE, maximum=MAX_LABEL_SIZE)
        return cls(lowest, highest, label_size)

    def drawn(self, num_pages: int, seed: int) -> Numbering:
        """Returns that of a report, each first number as likely, whatever the report says."""
        rng = np.random.default_rng((_STREAM, num_pages, seed))
        return Numbering(int(rng.integers(self.lowest, self.highest + 1)), self.label_size)
