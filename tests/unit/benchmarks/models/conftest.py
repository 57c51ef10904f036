"""What tests of boards share."""

from __future__ import annotations

import pytest

from tests.unit.benchmarks.models.short_search import shorten_search


@pytest.fixture
def short_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lazy reference tries next to nothing, where what it comes to is not asked."""
    shorten_search(monkeypatch)
