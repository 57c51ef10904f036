"""What tests of training share."""

from __future__ import annotations

import pytest

from tests.unit.training.reports import empty_reports


@pytest.fixture(autouse=True)
def report_of_nothing(request):
    """Has runs end in empty reports; `report` marks tests that need one."""
    if request.node.get_closest_marker("report") is not None:
        yield
        return
    with empty_reports():
        yield
