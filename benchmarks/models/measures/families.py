"""Families of tests: pairs of contestants are one, and pairs with a reference another."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.models.board.spec import REFERENCES
from vlm_envs.statistics.paired_tests import holm


def corrected(pairs: Sequence[tuple[str, str]], p_values: Sequence[float]) -> list[float]:
    """Returns Holm-corrected p-values of pairs of agents, in their order.

    `random`, `lazy`, and `oracle` are on every board to give numbers a scale. Comparisons with them are corrected among
    themselves and do not weaken comparisons of contestants.
    """
    found = list(p_values)
    for is_of_references in (False, True):
        family = [
            place for place, pair in enumerate(pairs) if any(agent in REFERENCES for agent in pair) is is_of_references
        ]
        for place, p_value in zip(family, holm([p_values[place] for place in family]), strict=True):
            found[place] = p_value
    return found
