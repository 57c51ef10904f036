"""The three ways to put a grid state into words, and what all of them share."""

from __future__ import annotations

from collections.abc import Mapping

REPRESENTATIONS = ("natural_language", "symbolic", "structured")
"""Relations in sentences, rows of symbols, or a dictionary. Source: VAGEN, Table 23 and Appendix C."""


def structured_text(fields: Mapping[str, object]) -> str:
    """Returns a typed state dict as text, keys unquoted: `{player_position: (4, 2), grid_size: (6, 6)}`."""
    return "{" + ", ".join(f"{key}: {value}" for key, value in fields.items()) + "}"
