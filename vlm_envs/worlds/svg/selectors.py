"""What style sheets may select by, so that matching them against a drawing is never long work."""

from __future__ import annotations

import re

MAX_MATCHES = 10_000
"""Most selectors times elements."""

MAX_STEPS = 3
"""Most steps of one selector: `g .a rect` has three."""

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_RULE = re.compile(r"([^{}]*)\{")
_PLAIN = re.compile(r"[\w\s.#*>:-]*")
_STEP = re.compile(r"[\s>]+")


def why_too_costly(sheet: str, num_elements: int) -> str:
    """Returns why a style sheet is not matched against so many elements, for the model to read, or an empty string."""
    selectors = [each.strip() for found in _RULE.findall(_COMMENT.sub(" ", sheet)) for each in found.split(",")]
    if len(selectors) * num_elements > MAX_MATCHES:
        return f"its style sheet has {len(selectors)} selectors for {num_elements} elements, which is too many"
    for selector in selectors:
        if not _PLAIN.fullmatch(selector) or len(_STEP.split(selector)) > MAX_STEPS:
            return (
                f"style sheets may select by element, class and id, {MAX_STEPS} steps deep at most; "
                f"one selects by {selector[:40]!r}"
            )
    return ""
