"""One form for the words of two texts: nouns in the singular, and one noun for things with several names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set

from vlm_envs.content.scenes.scene_kinds import KINDS

_IRREGULAR: Mapping[str, str] = {
    "men": "man",
    "women": "woman",
    "children": "child",
    "people": "person",
    "feet": "foot",
    "teeth": "tooth",
    "mice": "mouse",
    "geese": "goose",
    "knives": "knife",
    "wolves": "wolf",
    "leaves": "leaf",
    "shelves": "shelf",
    "loaves": "loaf",
    "scarves": "scarf",
    "buses": "bus",
    "gases": "gas",
    "lenses": "lens",
    "tomatoes": "tomato",
    "potatoes": "potato",
    **{kind.several: kind.name for kind in KINDS.values()},
}
_ES = re.compile(r"(?<=ss|ch|sh)es\Z|(?<=x)es\Z")
_NAMES: Mapping[str, str] = {
    **{other: kind.name for kind in KINDS.values() for other in kind.also},
    "couch": "sofa",
    "television": "tv",
    "airplane": "plane",
    "aeroplane": "plane",
    "telephone": "phone",
    "photograph": "photo",
}
"""Other names of things, in the singular."""


def singular(noun: str) -> str:
    """Returns a noun in the singular; a word that is in no known plural stays as it is."""
    if noun in _IRREGULAR:
        return _IRREGULAR[noun]
    if len(noun) > 5 and noun.endswith("ies"):
        return f"{noun[:-3]}y"
    if len(noun) > 4 and _ES.search(noun):
        return noun[:-2]
    return noun[:-1] if len(noun) > 3 and noun.endswith("s") and not noun.endswith("ss") else noun


def shared_names(*texts: Set[str]) -> Mapping[str, str]:
    """Returns other names of things with the name to use for them, unless one text uses both names.

    A text that names a cup and a mug names two things.
    """
    return {
        other: name for other, name in _NAMES.items() if not any(other in words and name in words for words in texts)
    }
