"""Boards whose lazy reference is there in no time: what it comes to is then next to nothing."""

from __future__ import annotations

from functools import partial

import pytest

from agents import blind_script
from agents.blind_script import open_loop


def shorten_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has the lazy reference try a few sequences, on two levels."""
    monkeypatch.setattr("agents.blind_script.NUM_CHANGES", 4)
    monkeypatch.setattr(blind_script, "open_loop", partial(open_loop, num_levels=4))
    for name, number in (("MOST_SEQUENCES", 1), ("NUM_FIRST_LEVELS", 2), ("NUM_FINALISTS", 1), ("NUM_ENVS", 2)):
        monkeypatch.setattr(blind_script, name, number)
