"""Structured text of a search to mentions: `{target_obj_type: Toaster, …, visible_objects: [{type: Sofa, …}]}`."""

from __future__ import annotations

import re

from judges.state_text.egocentric.household import plain
from judges.state_text.egocentric.mentions import ObjectMention, directions_in
from judges.state_text.quantities import first_length_m

_TOKEN = re.compile(r"[{}]|\b([a-z_]{1,40})[\"']?\s{0,20}[:=]\s{0,20}([^,;{}\[\]:=\n]{0,60})")


def read_egocentric_dict(text: str) -> list[ObjectMention]:
    """Returns what a dict claims of the target and of the visible objects.

    Keys may be quoted, shortened or in any order: a key with "target" in it speaks of the target, one with
    "direction" or "distance" gives that, and "type", "name" or "object" gives the type. No string raises, and time is
    linear in its length.

    Returns:
        The target, if there is a claim about it, and every other object.
    """
    target, objects = ObjectMention("", is_target=True), [ObjectMention("", is_listed=True)]
    for token in _TOKEN.finditer(text.lower()):
        key, value = token[1], token[2]
        if key is None:
            objects.append(ObjectMention("", is_listed=True))
        elif "target" in key:
            _read_field(target, key, value)
        else:
            if _is_type(key) and objects[-1].name:
                objects.append(ObjectMention("", is_listed=True))
            _read_field(objects[-1], key, value)
    return [target, *(each for each in objects if each.name)]


def _is_type(key: str) -> bool:
    return any(word in key for word in ("type", "name", "object"))


def _read_field(mention: ObjectMention, key: str, value: str) -> None:
    if "direction" in key:
        mention.directions |= directions_in(value)
    elif "distance" in key:
        length_m = first_length_m(value)
        mention.distances_m |= set() if length_m is None else {length_m}
    elif _is_type(key):
        mention.name = plain(value)
