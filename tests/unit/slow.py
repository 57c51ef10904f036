"""Which cases of a test are slow proofs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def quick(values: Iterable[Any], *kept: Any) -> list[Any]:
    """Returns the cases of a test, of which `make test` runs those that are kept and `make soak` the others."""
    cases = [*values]
    assert kept and all(each in cases for each in kept), "each that is kept is one of the cases"
    return [
        case if case in kept else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.soak)
        for case in cases
    ]
