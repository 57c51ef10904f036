"""The true state of a search as a dictionary, and that dictionary in words.

Both engines fill the same dictionary, and both texts are written from it alone, so whoever reads one of them can
compare it with `info["state"]`.

Source: VAGEN, Appendix D.1, for the dictionary's keys, its four directions and its order by distance. The sentences
are ours; the paper shows none for this world.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypedDict

from vlm_envs.content.homes.kinds import words_of
from vlm_envs.content.homes.sight import direction_of
from vlm_envs.responses.formats import WITHOUT_SYMBOLS, structured_text
from vlm_envs.validation import require_choice

DIRECTION_PHRASES: Mapping[str, str] = {
    "ahead": "ahead",
    "left": "to the left",
    "right": "to the right",
    "back": "behind",
}
"""The phrase for each direction of the dictionary."""


class SeenObject(TypedDict):
    """One visible object: its type, direction as in `DIRECTION_PHRASES`, and level distance in metres."""

    type: str
    direction_to_player: str
    distance_to_player: float


class NavigationStateDict(TypedDict):
    """A search as plain data; distances are level, in metres, rounded to centimetres."""

    target_obj_type: str
    target_distance_to_player: float
    target_direction_to_player: str
    visible_objects: list[SeenObject]


class Sighting(NamedTuple):
    """A thing of a type and where it lies, in metres ahead and to the right of the agent."""

    type: str
    ahead_m: float
    right_m: float


def state_dict(target: Sighting, visible: Iterable[Sighting]) -> NavigationStateDict:
    """Returns the state as plain data; what is visible, the target too if it is seen, nearest first, then by type."""
    objects = [_seen(sighting) for sighting in visible]
    objects.sort(key=lambda seen: (seen["distance_to_player"], seen["type"], seen["direction_to_player"]))
    described = _seen(target)
    return {
        "target_obj_type": target.type,
        "target_distance_to_player": described["distance_to_player"],
        "target_direction_to_player": described["direction_to_player"],
        "visible_objects": objects,
    }


def shortened(state: NavigationStateDict, max_visible: int) -> NavigationStateDict:
    """Returns a copy with the nearest visible objects only, which shares nothing that can be changed."""
    objects: list[SeenObject] = [{**seen} for seen in state["visible_objects"][:max_visible]]
    return {**state, "visible_objects": objects}


def describe(state: NavigationStateDict, representation: str) -> str:
    """Returns the state in words; raises `ConfigError` for an unknown representation."""
    require_choice("representation", representation, WITHOUT_SYMBOLS)
    return natural_language(state) if representation == "natural_language" else structured_text(state)


def natural_language(state: Mapping[str, Any]) -> str:
    """Returns sentences: the target's first, then `visible:` and one for each visible object."""
    target = _sentence(
        state["target_obj_type"], state["target_direction_to_player"], state["target_distance_to_player"]
    )
    seen = " ".join(
        _sentence(each["type"], each["direction_to_player"], each["distance_to_player"])
        for each in state["visible_objects"]
    )
    return f"{target} visible: {seen or 'nothing.'}"


def _seen(sighting: Sighting) -> SeenObject:
    return {
        "type": sighting.type,
        "direction_to_player": direction_of(sighting.ahead_m, sighting.right_m),
        "distance_to_player": round(math.hypot(sighting.ahead_m, sighting.right_m), 2),
    }


def _sentence(type_: str, direction: str, distance_m: float) -> str:
    return f"the {words_of(type_)} is {DIRECTION_PHRASES[direction]} at {distance_m:.2f} m."
