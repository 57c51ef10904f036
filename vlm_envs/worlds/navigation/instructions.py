"""Instructions: sets of them, which things they can ask for without doubt, and the sentences.

Source: the sets are those of EmbodiedBench's navigation tasks, which VAGEN's environment uses; all sentences are ours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from vlm_envs.content.homes.home import Home, Thing
from vlm_envs.content.homes.kinds import words_of
from vlm_envs.worlds.navigation.phrases import (
    BASE,
    COMMON_SENSE,
    COMPLEX_INSTRUCTION,
    LONG_HORIZON,
    PHRASES,
    VISUAL_APPEARANCE,
)

INSTRUCTION_SETS: Mapping[str, tuple[str, ...]] = {
    "base": BASE,
    "common_sense": COMMON_SENSE,
    "complex_instruction": COMPLEX_INSTRUCTION,
    "visual_appearance": VISUAL_APPEARANCE,
    "long_horizon": LONG_HORIZON,
}
"""Sentence patterns of each set: by name; by use; by name among distractions; by looks; by name and room."""


def target_candidates(home: Home, instruction_set: str) -> list[int]:
    """Returns the things a sentence of a set can mean without doubt, by their numbers.

    A use fits all things of a kind, so there must be one of it; names and looks can add the colour, so there must be
    one of that kind and colour.
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
    """Returns what a thing is called: its kind, with its colour where there are more of the kind."""
    name = words_of(thing.kind)
    is_only_one = sum(other.kind == thing.kind for other in home.things) == 1
    return name if is_only_one else f"{thing.color} {name}"


def write_instruction(rng: np.random.Generator, home: Home, target: int, instruction_set: str) -> str:
    """Returns a random sentence of a set that asks for a target, one of `target_candidates`, by its number."""
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
