"""Contradictions by words, and what the offline consistency judge of iVGR pays for them."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judges.consistency import word_consistency
from judges.contradictions import contradiction, own_contradiction
from judges.sections import MAX_TEXT_CHARS
from vlm_envs.scenes.source import SceneSource

CONTRARY = [
    ("The mug is red.", "The mug is not red, it is blue."),
    ("The mug is red.", "The mug isn't red."),
    ("The mug is red.", "The mug is blue."),
    ("A red mug stands beside three small kites.", "A blue mug stands beside three small kites."),
    ("A red mug stands beside three small kites.", "A red mug stands beside five small kites."),
    ("There are three red mugs.", "There are 4 red mugs."),
    ("There is one red mug.", "There are two red mugs."),
    ("There is a boat.", "There is no boat."),
    ("There is no yellow boat.", "There is a yellow boat near the tree."),
    ("The mug is on the left.", "The mug is on the right."),
    ("The red mug is to the left of the tree.", "The red mug is to the right of the tree."),
    ("The red mug is to the left of the blue mug.", "The blue mug is to the left of the red mug."),
    ("The kite is above the boat.", "The kite is below the boat."),
    ("The red lamp is taller than the green tree.", "The green tree is taller than the red lamp."),
    ("The red clock shows 3:40.", "The red clock shows 4:10."),
    ("The door is open.", "I look at the door. It is closed."),
    ("The cat is grey.", "The cat is never grey."),
    ("The tree is taller than the lamp.", "The tree is smaller than the lamp."),
    ("The tree is bigger than the lamp.", "The tree is smaller than the lamp."),
    ("The tree is larger than the lamp.", "The lamp is bigger than the tree."),
    ("There are fourteen kites.", "There are twenty kites."),
    ("There are twenty-one kites.", "There are 25 kites."),
    ("The mug is turquoise.", "The mug is maroon."),
    ("The mug is teal.", "The mug is red."),
    ("The mug is beige.", "The mug is navy."),
    ("The dog is in front of the tree.", "The dog is behind the tree."),
    ("The cup is on top of the box.", "The cup is beneath the box."),
    ("The cup is on the box.", "The cup is under the box."),
    ("The glass is full.", "The glass is empty."),
    ("The lamp is on.", "The lamp is off."),
    ("The door is open.", "The door is closed."),
    ("The mug is red.", "The mug is blue rather than red."),
    ("The mug is red.", "The mug is anything but red."),
    ("The mug is red.", "The mug is far from red."),
    ("The mug is red.", "It is false that the mug is red."),
    ("There are one hundred twenty birds.", "There are 20 birds."),
    ("There are two dozen eggs.", "There are two eggs."),
    ("The door is open.", "The door is no longer open."),
    ("The tree is taller than the lamp.", "The tree is not taller than the lamp."),
]

ALIKE = [
    ("The mug is red.", "The mug is red, not blue."),
    ("The mug is red.", "There is a mug. It is red."),
    ("A red mug and a blue mug.", "The mug is blue."),
    ("There is a mug.", "There is no other mug than the red one."),
    ("The gray cat.", "The grey cat is tiny. The cat is little."),
    ("There are three red mugs.", "There are 3 red mugs."),
    ("The mug is left of the tree.", "The tree is right of the mug."),
    ("The first mug is red.", "The first mug is red. The second mug is not red."),
    ("The mug is red.", "The kite is not red."),
    ("", "The mug is not red."),
    ("There are two dogs.", "One dog is black and one dog is white."),
    ("One dog is black and one dog is white.", "There are two dogs."),
    ("There are three mugs.", "One red mug stands left of two blue mugs."),
    ("The mug is red.", "The mug is red rather than blue."),
    ("The mug is red.", "The mug is anything but blue."),
    ("The mug is red.", "It is false that the mug is blue."),
    ("The cup is on the box.", "The cup is on top of the box."),
    ("The cup is under the box.", "The cup is beneath the box."),
    ("The kite is far from the tree.", "There is a kite. There is a tree."),
    ("The lamp on the table is off.", "The lamp is off."),
    ("The mug is red.", ""),
    # Numbers in words, about how many, and names that are numbers
    ("There are one hundred twenty birds.", "There are 120 birds."),
    ("There are one hundred and twenty birds.", "There are 120 birds."),
    ("There are two thousand three hundred and five birds.", "There are 2,305 birds."),
    ("There are two dozen eggs.", "There are 24 eggs."),
    ("There are half a dozen eggs.", "There are six eggs."),
    ("There are at least two mugs.", "There are three mugs."),
    ("There are more than two mugs.", "There are three mugs."),
    ("There are about twenty birds.", "There are 22 birds."),
    ("A bus with the number 42.", "One bus."),
    ("One of the mugs is red.", "Three mugs are red."),
    # Two of a kind, parts of one thing
    ("The left traffic light is red.", "The right traffic light is green."),
    ("The first traffic light is red.", "The second traffic light is green."),
    ("One traffic light is red.", "Another traffic light is green."),
    ("The traffic light on the left is red.", "The traffic light on the right is green."),
    ("The sky is blue. The sky is grey in the west.", "The sky is blue."),
    ("The sky is blue and the sky is grey in the west.", "The sky is blue."),
    ("The sky is blue.", "The sky is grey in the west."),
    ("The red and white mug.", "The mug is red."),
    ("The mug is red and white.", "The mug is white."),
    # In between, no longer, not at all said
    ("The glass is half empty.", "The glass is half full."),
    ("The glass is half-full.", "The glass is half-empty."),
    ("The door is closed.", "The door is no longer open."),
    ("The door was open, now it is closed.", "The door is closed."),
    ("The rope is no longer than the stick.", "The rope is short."),
    ("The mug is red.", "Is the mug blue? It is red."),
    ("The mug is red.", "If the mug were blue, it would match. The mug is red."),
    ("The mug is red.", "The mug might be blue."),
    ("The tree is taller than the lamp.", "The lamp is not taller than the tree."),
]


@pytest.mark.parametrize(("reference", "text"), CONTRARY)
def test_a_contradiction_earns_nothing_however_many_words_are_shared(reference, text):
    # iVGR, section 3.3: alpha is 0 for a contradiction.
    assert word_consistency("What?", reference, text).f1 == 0.0
    assert word_consistency("What?", text, reference).f1 == 0.0


@pytest.mark.parametrize(("reference", "text"), ALIKE)
def test_what_only_resembles_one_is_none(reference, text):
    assert contradiction(reference, text) is None


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        ("The mug is red.", "The mug is red and the mug is blue."),
        ("The mug is red.", "The mug is red. The mug is not red."),
        ("The door is open.", "The door is open. The door is closed."),
    ],
)
def test_to_say_both_earns_nothing(reference, text):
    assert word_consistency("What?", reference, text).f1 == 0.0


@pytest.mark.parametrize("text", [text for pair in ALIKE for text in pair])
def test_a_text_of_two_things_does_not_contradict_itself(text):
    assert own_contradiction(text) is None


def test_words_of_the_question_may_be_contradicted_too():
    assert word_consistency("Is the mug red?", "The mug is red.", "The mug is not red.").f1 == 0.0


def test_true_accounts_of_generated_scenes_contradict_neither_themselves_nor_their_half():
    source = SceneSource()
    for seed in range(40):
        facts = source.draw(np.random.default_rng(seed), "train").facts
        assert contradiction(facts, facts) is None, facts
        assert own_contradiction(facts) is None, facts
        assert contradiction(facts, facts.partition(". ")[0]) is None, facts


WORDS = ["the mug", "is", "not", "red", "blue", "no", "left of", "the tree", "three", ".", ",", "it", "and", "isn't"]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=4)), max_size=40).map(" ".join))
def test_no_text_raises_and_none_contradicts_itself(text):
    assert contradiction(text, text) is None


def test_walls_of_text_take_bounded_time():
    start = time.perf_counter()
    for piece in ("no red mug. ", "left ", "3", "the mug is not red and "):
        text = (piece * 100_000)[:MAX_TEXT_CHARS]
        contradiction(text, text)
    assert time.perf_counter() - start < 20
