"""Texts of Navigation: instructions, phrases that do not name the target, and states in words.

Both engines fill the same state dictionary, and every text is derived from it alone, so texts can be compared
with `info["state"]`.

Source: EmbodiedBench's navigation tasks, which VAGEN's environment uses, for the instruction sets; VAGEN,
Appendix D.1, for the dictionary's keys, its four directions, and its order by distance. All sentences are
ours, because the paper shows none for this world.
"""

from __future__ import annotations

import math
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vlm_envs.content.homes.home import Home, Thing, words_of
from vlm_envs.content.homes.home_space import direction_of
from vlm_envs.responses.formats import WITHOUT_SYMBOLS, structured_text
from vlm_envs.validation import require_choice


class Phrases(NamedTuple):
    """Descriptions of a kind that do not name it.

    Attributes:
        uses: Its uses.
        look: Its shape, with `{color}` for its color.
    """

    uses: tuple[str, ...]
    look: str


_WORDS = tomllib.loads(Path(__file__).with_name("navigation_phrases.toml").read_text(encoding="utf-8"))

PHRASES: Mapping[str, Phrases] = {
    kind: Phrases(uses=tuple(words["uses"]), look=words["look"]) for kind, words in _WORDS["kinds"].items()
}
"""All kinds that may be a target."""

INSTRUCTION_SETS: Mapping[str, tuple[str, ...]] = {name: tuple(patterns) for name, patterns in _WORDS["sets"].items()}
"""Sentence patterns of each set: by name; by use; by name with distractions; by appearance; by name and
room."""


def target_candidates(home: Home, instruction_set: str) -> list[int]:
    """Returns the indices of the things that a sentence of a set can refer to unambiguously.

    A use fits all things of a kind, so the kind must be unique; names and appearances can add the color, so
    the combination of kind and color must be unique.
    """
    kinds = Counter(thing.kind for thing in home.things)
    painted = Counter((thing.kind, thing.color) for thing in home.things)
    return [
        index
        for index, thing in enumerate(home.things)
        if thing.kind in PHRASES
        and painted[thing.kind, thing.color] == 1
        and (kinds[thing.kind] == 1 or instruction_set != "common_sense")
    ]


def name_of(home: Home, thing: Thing) -> str:
    """Returns a thing's name: its kind, with its color if the kind is not unique."""
    name = words_of(thing.kind)
    is_only_one = sum(other.kind == thing.kind for other in home.things) == 1
    return name if is_only_one else f"{thing.color} {name}"


def write_instruction(rng: np.random.Generator, home: Home, target: int, instruction_set: str) -> str:
    """Returns a random sentence of a set that asks for a target, an index from `target_candidates`."""
    thing = home.things[target]
    patterns, described = INSTRUCTION_SETS[instruction_set], PHRASES[thing.kind]
    pattern = patterns[int(rng.integers(len(patterns)))]
    others = sorted({words_of(other.kind) for other in home.things if other.kind != thing.kind})
    room = home.room_of_thing(thing)
    return pattern.format(
        name=name_of(home, thing),
        use=described.uses[int(rng.integers(len(described.uses)))],
        look=described.look.format(color=thing.color),
        other=others[int(rng.integers(len(others)))] if others else "door",
        room=home.rooms[room or 0].kind.replace("_", " "),
    )


DIRECTION_PHRASES: Mapping[str, str] = {
    "ahead": "ahead",
    "left": "to the left",
    "right": "to the right",
    "back": "behind",
}
"""The phrase for each direction in the dictionary."""


SeenObject = dict[str, Any]
"""A visible object: its `type`, `direction_to_player` as in `DIRECTION_PHRASES`, and horizontal
`distance_to_player`."""

NavigationStateDict = dict[str, Any]
"""A search as plain data: `target_obj_type`, `target_distance_to_player`, `target_direction_to_player`, and
`visible_objects`; distances are horizontal, in meters, rounded to centimeters."""


class Sighting(NamedTuple):
    """A thing's type, and its distance ahead of and to the right of the agent, in meters."""

    type: str
    ahead_m: float
    right_m: float


def state_dict(target: Sighting, visible: Iterable[Sighting]) -> NavigationStateDict:
    """Returns the state as plain data; visible objects, possibly including the target, are sorted by distance."""
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
    """Returns a deep copy with only the nearest visible objects."""
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
        _sentence(item["type"], item["direction_to_player"], item["distance_to_player"])
        for item in state["visible_objects"]
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
