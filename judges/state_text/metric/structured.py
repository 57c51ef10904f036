"""Structured text of a table to claims: `{red_cube_position: (83, -102, 20), drawer_open_mm: 0}`."""

from __future__ import annotations

import re

from judges.state_text.metric.words import MetricClaim, name_of_key
from judges.state_text.quantities import TRIPLE, first_number, position

# A key has two letters or more: x, y and z are coordinates.
_KEY = re.compile(r"\b([a-z_]{2,40})[0-9]{0,3}[\"']?\s{0,20}[:=]")
_TRIPLE = re.compile(TRIPLE)


def read_metric_dict(text: str) -> list[MetricClaim]:
    """Returns each position and single number of a dict (Python, JSON or unquoted), with the name its key gives it."""
    text = text.lower()
    claims = []
    keys = list(_KEY.finditer(text))
    ends = [*(key.start() for key in keys), len(text)][1:]
    for key, end in zip(keys, ends, strict=True):
        name, value = name_of_key(key[1]), text[key.end() : end]
        triples = [MetricClaim(name, position(triple)) for triple in _TRIPLE.findall(value)]
        number = None if triples else first_number(value)
        claims += triples if number is None else [MetricClaim(name, (number,))]
    return claims
