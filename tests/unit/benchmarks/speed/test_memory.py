"""What a plan says of memory is what updates of models from scratch take; larger models are in `make soak`."""

from __future__ import annotations

import sys

import pytest

from benchmarks.speed.memory import CASES, table

pytest.importorskip("torch", reason="needs torch: pip install '.[train]'")

from benchmarks.__main__ import main
from benchmarks.speed.memory import MAX_ERROR, compared, planned_bytes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read from Linux's /proc")


@pytest.mark.soak
def test_a_plan_is_near_what_is_measured():
    result = compared("1M")
    print(*table([result]), sep="\n")
    assert result.num_parameters == 1_237_952
    assert abs(result.error) < MAX_ERROR


@pytest.mark.soak
def test_checkpoints_of_gradients_are_planned():
    plain, checkpointed = (planned_bytes(CASES[name])[1] for name in ("150M", "150M-checkpointed"))
    assert checkpointed < 0.9 * plain


def test_an_unknown_case_is_told(capsys):
    assert main(["memory", "--only", "2M"]) == 2
    assert "'1M'" in capsys.readouterr().err
