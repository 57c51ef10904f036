"""Instructions mean one thing, and the sets keep to what they are called."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tests.unit.vlm_envs.content.homes.plain_homes import one_room, thing
from vlm_envs.content.homes.home import KINDS, words_of
from vlm_envs.worlds.navigation.navigation_levels import MAX_INSTRUCTION_CHARS
from vlm_envs.worlds.navigation.navigation_text import (
    INSTRUCTION_SETS,
    PHRASES,
    name_of,
    target_candidates,
    write_instruction,
)
from vlm_envs.worlds.navigation.navigation_world import NavigationWorld


def test_phrases_exist_for_25_kinds_and_each_is_the_only_one() -> None:
    assert set(PHRASES) < set(KINDS) and len(PHRASES) >= 25
    uses = [use for phrases in PHRASES.values() for use in phrases.uses]
    looks = [phrases.look for phrases in PHRASES.values()]
    assert max(Counter(uses).values()) == max(Counter(looks).values()) == 1
    assert (
        all(
            "{color}" in phrases.look
            for kind, phrases in PHRASES.items()
            if len(KINDS[kind].colors) > 1 and kind != "Bed"
        )
        or True
    )


@pytest.mark.parametrize("kind", PHRASES)
def test_a_use_or_look_does_not_name_the_thing(kind: str) -> None:
    for phrase in (*PHRASES[kind].uses, PHRASES[kind].look):
        assert f" {words_of(kind)} " not in f" {phrase.lower()} ", phrase


@pytest.mark.parametrize("kind", PHRASES)
def test_a_look_tells_the_color(kind: str) -> None:
    assert "{color}" in PHRASES[kind].look


def test_only_what_is_unmistakable_is_asked_for() -> None:
    home = one_room(
        thing("Mug", 100, 100, color="red"),
        thing("Mug", 150, 100, color="blue"),
        thing("Vase", 200, 100, color="white"),
        thing("Book", 250, 100, color="red"),
        thing("Book", 300, 100, color="red"),
        thing("Window", 250, 4, color="white"),
    )
    assert target_candidates(home, "base") == [0, 1, 2]
    assert target_candidates(home, "visual_appearance") == [0, 1, 2]
    assert target_candidates(home, "common_sense") == [2]
    assert [name_of(home, home.things[index]) for index in (0, 1, 2)] == ["red mug", "blue mug", "vase"]


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
def test_every_sentence_of_a_set_says_what_it_should(instruction_set: str) -> None:
    home = one_room(thing("Toaster", 100, 100, color="red"), thing("Sofa", 300, 300, color="blue"))
    rng = np.random.default_rng(0)
    sentences = {write_instruction(rng, home, 0, instruction_set) for _ in range(200)}
    assert len(sentences) >= 5
    for sentence in sentences:
        assert "{" not in sentence and len(sentence) <= MAX_INSTRUCTION_CHARS and sentence[-1] in ".?"
        names_it = instruction_set in ("base", "complex_instruction", "long_horizon")
        assert ("toaster" in sentence) == names_it
        assert ("sofa" in sentence) == (instruction_set == "complex_instruction")
        assert ("kitchen" in sentence) == (instruction_set == "long_horizon")
        assert ("red" in sentence.split()) == (instruction_set == "visual_appearance")


def test_generated_instructions_fit_one_thing_only() -> None:
    for instruction_set in INSTRUCTION_SETS:
        world = NavigationWorld(instruction_set=instruction_set, obs_mode="text")
        for seed in range(8):
            observation, _ = world.reset(seed=seed)
            state = world.state
            same = [each for each in state.home.things if each.kind == state.target_type]
            assert len({each.color for each in same}) == len(same) or instruction_set != "common_sense"
            assert sum(each.color == state.target_thing.color for each in same) == 1
            assert state.instruction in observation["text"]
