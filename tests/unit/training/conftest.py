"""What tests of training share."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def report_of_nothing(request, monkeypatch):
    """Has runs end in an empty report, which takes longer than all the rest; `report` marks tests that need one."""

    def build(directory):
        path = directory / "report.html"
        path.write_text("")
        return path

    if request.node.get_closest_marker("report") is None:
        monkeypatch.setattr("training.loop.run.build_report", build)
