"""Which cases of a test are slow proofs, and how many random cases a test draws."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings


def quick(values: Iterable[Any], *kept: Any) -> list[Any]:
    """Returns the cases of a test, of which `make test` runs those that are kept and `make soak` the others."""
    cases = [*values]
    assert kept and all(each in cases for each in kept), "each that is kept is one of the cases"
    return [
        case if case in kept else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.soak)
        for case in cases
    ]


def sized(count: int, *, soak: int) -> int:
    """Returns the number of random cases a test draws: `count` in `make test`, `soak` in `make soak`."""
    return soak if settings.get_current_profile_name() == "soak" else count


def three_standard_errors(count: int) -> float:
    """Returns three standard errors of the mean of `count` fair coin flips."""
    return 1.5 / count**0.5
