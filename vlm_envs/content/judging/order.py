"""Ids of judging levels name the order in which candidates are shown; the question is the same in both orders."""

from __future__ import annotations

import re

_ORDER = re.compile(r":(?:forward|reverse):")


def question_of(level_id: str) -> str:
    """Returns a level id without the order of its candidates, so that both orders of a pair are equal.

    Ids of other levels, which name no order, are returned unchanged.
    """
    return _ORDER.sub(":*:", level_id, count=1)
