"""Typed states as text without quotes."""

from __future__ import annotations

from collections.abc import Mapping


def structured_text(value: object) -> str:
    """Returns a typed state as text: `{player_position: (4, 2), grid_size: (6, 6)}`; fractions with two decimals."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {structured_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(structured_text, value)) + "]"
    return f"{value:.2f}" if isinstance(value, float) else str(value)
