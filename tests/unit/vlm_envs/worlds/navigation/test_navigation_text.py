"""Instructions of Navigation, and states as text."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from tests.unit.vlm_envs.content.homes.plain_homes import one_room, thing
from vlm_envs.content.homes.home import KINDS, words_of
from vlm_envs.content.homes.home_space import Pose
from vlm_envs.errors import ConfigError
from vlm_envs.worlds.navigation.navigation_levels import MAX_INSTRUCTION_CHARS, Action, NavigationState
from vlm_envs.worlds.navigation.navigation_text import (
    INSTRUCTION_SETS,
    PHRASES,
    Sighting,
    describe,
    name_of,
    shortened,
    state_dict,
    target_candidates,
    write_instruction,
)
from vlm_envs.worlds.navigation.navigation_world import HomeView, NavigationTask, NavigationWorld


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


# VAGEN, Appendix D.1, as far as it is printed there
PAPER = {
    "target_obj_type": "Toaster",
    "target_distance_to_player": 2.59,
    "target_direction_to_player": "ahead",
    "visible_objects": [
        {"type": "Cabinet", "direction_to_player": "left", "distance_to_player": 0.94},
        {"type": "Drawer", "direction_to_player": "left", "distance_to_player": 1.18},
        {"type": "CounterTop", "direction_to_player": "left", "distance_to_player": 1.33},
    ],
}


def test_the_papers_dictionary() -> None:
    sightings = [Sighting("CounterTop", 0.1, -1.326), Sighting("Cabinet", 0, -0.94), Sighting("Drawer", 0, -1.18)]
    assert state_dict(Sighting("Toaster", 2.59, 0.0), sightings) == PAPER


def test_sentences() -> None:
    assert describe(shortened(PAPER, 2), "natural_language") == (
        "the toaster is ahead at 2.59 m. visible: the cabinet is to the left at 0.94 m. "
        "the drawer is to the left at 1.18 m."
    )
    assert describe(shortened({**PAPER, "target_direction_to_player": "back"}, 0), "natural_language") == (
        "the toaster is behind at 2.59 m. visible: nothing."
    )


def test_structured_text() -> None:
    assert describe(shortened(PAPER, 1), "structured") == (
        "{target_obj_type: Toaster, target_distance_to_player: 2.59, target_direction_to_player: ahead, "
        "visible_objects: [{type: Cabinet, direction_to_player: left, distance_to_player: 0.94}]}"
    )
    assert describe(shortened(PAPER, 0), "structured").endswith("visible_objects: []}")


def test_unknown_representations_are_refused() -> None:
    with pytest.raises(ConfigError, match="representation must be one of 'natural_language', 'structured'"):
        describe(PAPER, "symbolic")


def test_a_home_seen_from_its_middle() -> None:
    home = one_room(
        thing("Vase", 250, 450, z_cm=90),
        thing("Statue", 250, 400, z_cm=90, color="gold"),
        thing("Sofa", 250, 60),
        thing("FloorLamp", 60, 400),
    )
    state = NavigationState(home=home, pose=Pose(10, 10, 0, 0), target=2, instruction="Sit down.")
    view = HomeView(size_px=64, fov_degrees=120, max_visible=5)
    assert view.structured(state) == {
        "target_obj_type": "Sofa",
        "target_distance_to_player": 1.9,
        "target_direction_to_player": "back",
        "visible_objects": [
            {"type": "Statue", "direction_to_player": "ahead", "distance_to_player": 1.5},
            {"type": "Vase", "direction_to_player": "ahead", "distance_to_player": 2.0},
            {"type": "FloorLamp", "direction_to_player": "left", "distance_to_player": 2.42},
        ],
    }
    assert view.describe(state, "natural_language") == (
        "the sofa is behind at 1.90 m. visible: the statue is ahead at 1.50 m. the vase is ahead at 2.00 m. "
        "the floor lamp is to the left at 2.42 m."
    )


def test_an_oracles_reasoning_is_short() -> None:
    home = one_room(thing("Toaster", 250, 432, z_cm=90))
    state = NavigationState(home=home, pose=Pose(10, 10, 0, 0), target=0, instruction="Make toast.")
    task = NavigationTask(step_length_m=0.25, success_threshold_m=1.0, require_visible=False)

    def never(num_actions: int) -> NavigationState:
        raise AssertionError("nothing needs to be simulated")

    assert task.reasoning(state, [Action.MOVE_AHEAD], never) == "toaster 1.8 m ahead, 0.0 m to the right"
    turned = replace(state, pose=Pose(10, 10, 1, 0))
    assert task.reasoning(turned, [Action.ROTATE_LEFT], never) == "toaster 0.0 m ahead, 1.8 m to the left"
    assert task.instruction(state) == "Instruction: Make toast."
