"""Suboptimal drawings: right at first sight, wrong in the detail."""

from __future__ import annotations

import re

_LENGTHS = re.compile(r'\b(cx|cy|r|rx|ry|x|y|x1|y1|x2|y2|width|height|points|d)="([^"]*)"')
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_LAST_ELEMENT = re.compile(r"<(?!/)[^<>]*/>(?=(?:</\w+>)*\s*$)")
_ROUGHNESS = 4


def suboptimal_markup(markup: str) -> str:
    """Returns markup that draws nearly the same: every length is rounded to a multiple of four units.

    The `viewBox` stays. Where rounding changes nothing, the last element is left out; where there is only one, the
    markup comes back as it is.
    """
    head, bracket, body = markup.partition(">")
    rough = head + bracket + _LENGTHS.sub(lambda found: f'{found[1]}="{_NUMBER.sub(_rounded, found[2])}"', body)
    if rough != markup or body.count("/>") < 2:
        return rough
    return _LAST_ELEMENT.sub("", markup)


def _rounded(found: re.Match[str]) -> str:
    value = float(found[0])
    return str(max(_ROUGHNESS, round(value / _ROUGHNESS) * _ROUGHNESS) if value else 0)
