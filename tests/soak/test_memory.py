"""Slow proof, run by `make soak`: a plan's memory is within 15 % of what updates take, from 1M to 140M parameters."""

from __future__ import annotations

import sys

import pytest

from benchmarks.speed.memory import CASES, table

pytest.importorskip("torch", reason="needs torch: pip install '.[train]'")

from benchmarks.speed.memory import MAX_ERROR, compared

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read from Linux's /proc")


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", CASES)
def test_a_plan_is_near_what_is_measured(name: str) -> None:
    result = compared(name)
    print(*table([result]), sep="\n")
    assert abs(result.error) < MAX_ERROR
