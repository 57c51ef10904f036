"""What tests of boards share."""

from __future__ import annotations

import pytest

from agents import lazy, open_loop


@pytest.fixture
def short_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lazy reference tries next to nothing, where what it comes to is not asked."""
    monkeypatch.setattr(open_loop, "NUM_CHANGES", 4)
    monkeypatch.setattr(lazy, "NUM_FIRST_LEVELS", 2)
