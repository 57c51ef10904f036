"""Ids of judging levels name the order in which candidates are shown; what is asked is the same in both."""

from __future__ import annotations

import re

_ORDER = re.compile(r":(?:forward|reverse):")


def question_of(level_id: str) -> str:
    """Returns a level's id without the order of its candidates: equal for a pair and the same pair turned.

    Ids of other levels, which name no order, are returned as they are.
    """
    return _ORDER.sub(":*:", level_id, count=1)
