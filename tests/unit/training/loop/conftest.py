"""What holds for all tests of runs."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True)
def threads_kept():
    """Leaves torch as many threads as it had: runs are compared bit by bit, and take sums in an order of theirs."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
