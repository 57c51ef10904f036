"""What tells test levels apart in files that are kept."""

from __future__ import annotations

_NUM_DIGITS = 8


def short_hash(state_hash: str) -> str:
    """Returns the first eight digits of a start state's hash: among some hundred levels no two share them by chance."""
    return state_hash[:_NUM_DIGITS]
