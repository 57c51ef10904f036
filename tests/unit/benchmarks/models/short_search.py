"""Boards whose lazy reference is there in no time: what it comes to is then next to nothing."""

from __future__ import annotations

from functools import partial

import pytest

from agents import lazy
from agents.open_loop import open_loop


def shorten_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has the lazy reference try a few sequences, on two levels."""
    monkeypatch.setattr("agents.open_loop.NUM_CHANGES", 4)
    monkeypatch.setattr(lazy, "open_loop", partial(open_loop, num_levels=4))
    for name, number in (("MOST_SEQUENCES", 1), ("NUM_FIRST_LEVELS", 2), ("NUM_FINALISTS", 1), ("NUM_ENVS", 2)):
        monkeypatch.setattr(lazy, name, number)
