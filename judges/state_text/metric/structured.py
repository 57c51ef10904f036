"""Structured text of a table to claims: `{red_cube_position: (83, -102, 20), drawer_open_mm: 0}`."""

from __future__ import annotations

import re

from judges.state_text.metric.words import MetricClaim, Name, is_key_word, name_of_key
from judges.state_text.quantities import TRIPLE, first_number, position

# A key has two letters or more: x, y and z are coordinates. Words before it may belong to it: `red cube: (…)`.
_KEY = re.compile(r"((?:\b[a-z]{2,20} ){0,4})\b([a-z_][a-z_-]{1,39})[0-9]{0,3}[\"']?\s{0,20}[:=]")


def read_metric_dict(text: str) -> list[MetricClaim]:
    """Returns each position and single number of a dict (Python, JSON or unquoted), with the name its key gives it.

    A key without a name of its own, such as `position`, has that of the key before it: `{red_cube: {position: …}}`.
    """
    text = text.lower()
    claims = []
    keys = list(_KEY.finditer(text))
    ends = [*(key.start() for key in keys), len(text)][1:]
    name: Name = frozenset()
    for key, end in zip(keys, ends, strict=True):
        name, value = _name_of(key) or name, text[key.end() : end]
        triples = [MetricClaim(name, position(triple)) for triple in re.findall(TRIPLE, value)]
        number = None if triples else first_number(value)
        claims += triples if number is None else [MetricClaim(name, (number,))]
    return claims


def _name_of(key: re.Match[str]) -> Name:
    """Returns the name in a key, with as many words before it as are words of keys."""
    words = key[1].split()
    while words and not all(map(is_key_word, words)):
        del words[0]
    return name_of_key(" ".join([*words, key[2]]))
