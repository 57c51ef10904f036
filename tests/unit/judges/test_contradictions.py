"""Contradictions by words, and what the offline consistency judge of iVGR pays for them."""

from __future__ import annotations

import collections
import re
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.word_consistency import content_words, contradiction, own_contradiction, word_consistency
from tests.unit.slow import sized
from vlm_envs.content.scenes.scene_source import SceneSource
from vlm_envs.responses.extraction import MAX_TEXT_CHARS

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
    # What clocks show and signs say
    ("The pink clock shows 3:15.", "The pink clock shows 11:15."),
    ("The pink clock shows 3:15.", "The pink clock shows 4:15."),
    ('The black sign says "HM7".', 'The black sign says "ZQ7".'),
    ("The sign says STOP in white letters.", "The sign says GO in white letters."),
    ("The sign says 'STOP'.", "The sign says 'GO'."),
    # Colours said in other ways
    ("The mug is red.", "The colour of the mug is blue."),
    ("The mug is red.", "The mug's colour is blue."),
    ("The mug is red.", "I see a mug. Its colour is blue."),
    ("There is no butterfly.", "There are two butterflies."),
    # Texts without quotation marks, scores, and decimals
    ("The sign [1, 2, 3, 4] says Exit now.", "The sign says stop now."),
    ("The sign above the door reads no entry.", "The sign above the door reads welcome home."),
    ('The sign says "STOP".', "The sign says go ahead."),
    ("The score [1, 2, 3, 4] is 3-2.", "The score is 2-3."),
    ("The score is 3\N{EN DASH}2.", "The score is 3-1."),
    ("The price [1, 2, 3, 4] is $3.50.", "The price is $4.50."),
    ("The price is 3.25.", "The price is 3.75."),
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
    # Two of a kind again, sums, parts of a text, times in other words
    ("The clock shows 3:15.", "The clock shows 03:15. It is a quarter past three."),
    ("The clock shows 3:15.", "The clock shows 15:15."),
    ("The clock shows 3:15.", "The clock does not show 4:15."),
    ("The clock shows 3:15.", "The clock shows 3:15. The other clock shows 4:15."),
    ("The clock shows 3:15.", "A clock shows 3:15. A clock shows 4:15."),
    ('The sign says "STOP".', "The sign says STOP HERE."),
    ('The sign says "STOP".', "The sign says 'stop'."),
    ("There are five dogs.", "There are two dogs on the mat. There are three dogs on the lawn. There are five dogs."),
    ("There are five dogs.", "There are two dogs. There are three dogs. There are five dogs."),
    ("There are two red dogs.", "There are two red dogs. There are three black dogs."),
    ("One mug is left of the tree.", "One mug is left of the tree. One mug is right of the tree."),
    ("The mug is left of the tree.", "The mug is left of the tree. The other mug is right of the tree."),
    ("The mug is left of the tree.", "The mug is left of the tree and right of the house."),
    ("The mug is left of the tree.", "The mug is left of the tree and below the tree."),
    ("The mug is red.", "The colour of the mug is red."),
    ("The mug is red.", "The mug's colour is red."),
    ("The mug is red.", "The mug's handle is blue."),
    # Texts without quotation marks, scores, ranges, and decimals
    ("The sign says Exit now.", "The sign says exit."),
    ("The sign says Exit now.", "The sign says something."),
    ("The sign says Exit now.", "The sign says to leave."),
    ("The man says hello.", "The man says goodbye to nobody."),
    ("The screen shows a cat.", "The screen shows an animal."),
    ("The score is 3\N{EN DASH}2.", "The score is 3-2."),
    ("There are 10-20 birds.", "There are 10-15 birds."),
    ("The price is $3.50.", "The price is $3.5."),
    ("The price is $3.00.", "The price is $3."),
    ("Mug left of tree. Mug above box.", "Mug left of tree."),
    ("A mug left of a tree. A mug right of a tree.", "A mug left of a tree."),
]


@pytest.mark.parametrize(("reference", "text"), CONTRARY)
def test_a_contradiction_earns_nothing_however_many_words_are_shared(reference, text):
    # iVGR, section 3.3: alpha is 0 for a contradiction.
    assert word_consistency("What?", reference, text).value == 0.0
    assert word_consistency("What?", text, reference).value == 0.0


@pytest.mark.parametrize(("reference", "text"), ALIKE)
def test_what_only_resembles_one_is_none(reference, text):
    assert contradiction(reference, text) is None


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        ("The mug is red.", "The mug is red and the mug is blue."),
        ("The mug is red.", "The mug is red. The mug is not red."),
        ("The door is open.", "The door is open. The door is closed."),
        ("The lamp is taller.", "The lamp is taller than the tree. The tree is taller than the lamp."),
        ("The mug is left of the tree.", "The mug is left of the tree. The mug is right of the tree."),
        ("The mug is on the left.", "The mug is on the left. The mug is on the right."),
        ("There are three dogs.", "There are two dogs. There are three dogs. There are four dogs."),
        ("There are three dogs.", "There are exactly three dogs in the park. There are four dogs in the park."),
        ("The clock shows 3:15.", "The clock shows 3:15. The clock shows 11:15."),
        ("The clock shows 3:15.", "The clock shows 3:15. It shows 11:15."),
        ('The sign says "HM7".', 'The sign says "HM7". The sign says "ZQ7".'),
        ("The mug is left of the tree.", "Mug left tree. Mug right tree."),
        ("The mug is left of the tree.", "Mug left of tree, mug right of tree."),
        ("The score is 3-2.", "The score is 3-2. The score is 2-3."),
    ],
)
def test_to_say_both_earns_nothing(reference, text):
    assert word_consistency("What?", reference, text).value == 0.0


@pytest.mark.parametrize(
    "text",
    [
        "The mug is red or blue.",
        "The mug is red or blue or green.",
        "The mug could be red, blue or green.",
        "The mug is red, or the mug is blue.",
        "The mug is red, or it is blue.",
        "The mug could be red. The mug could be blue.",
        "A red mug. A blue mug. A green mug.",
        "Red mug, blue mug, green mug, yellow mug.",
    ],
)
def test_a_list_of_what_may_be_is_paid_as_both_omitting_and_adding(text):
    assert word_consistency("What?", "The mug is red.", text).value <= 0.3


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        ("The bus shows number 42.", "The bus shows number 1 or number 2 or number 42 or number 77 or number 100."),
        ("There are three chairs at the table.", "There are one chairs or two chairs or three chairs at the table."),
        ('The sign above the door says "EXIT".', 'The sign above the door says "EXIT" or "STOP" or "ENTER".'),
        ("The sign above the door says EXIT.", "The sign above the door says EXIT or 42 or STOP."),
        ("The clock shows 3:15.", "The clock shows 3:15 or 4:15."),
        ("The price is $3.50.", "The price is $3.50 or $4.50."),
        ("The score is 3-2.", "The score is 3-2 or 2-3."),
        ("A red mug stands there.", "A red mug or blue mug stands there."),
        ("The sign says STOP.", 'The sign says "STOP or GO".'),
    ],
)
def test_alternatives_of_every_kind_settle_nothing(reference, text):
    assert word_consistency("What?", reference, text).value <= 0.3


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        ('The sign says "NOW OR NEVER".', 'The sign says "NOW OR NEVER".'),
        ("There are two or three birds.", "There are two or three birds."),
        ("There are three birds.", "There are three or so birds."),
        ("The clock shows 3:15.", "The clock says 3:15."),
        ("The clock reads 3:15.", "The clock displays 3:15."),
        ('The sign says "EXIT".', 'The sign reads "EXIT".'),
    ],
)
def test_what_settles_as_much_as_the_reference_is_the_same_content(reference, text):
    assert word_consistency("What?", reference, text).value == 1.0


@pytest.mark.parametrize(
    "text",
    [
        "The mug is red.",
        "I check whether the mug is red or blue. The mug is red.",
        "Is the mug red or blue? The mug is red.",
        "The red mug or the blue kite? The mug is red.",
    ],
)
def test_alternatives_that_are_asked_or_settled_are_no_list(text):
    assert word_consistency(f"What? {text}", "The mug is red.", text).value == 1.0


def test_a_short_text_and_a_time_are_words_of_their_own():
    assert content_words('It says "GO" at 3:15, HM7, on 2 cards.') == {"go", "3:15", "hm7", "2", "cards", "says"}
    assert content_words("three mugs") == content_words("3 mugs")


@pytest.mark.parametrize("text", [text for pair in ALIKE for text in pair])
def test_a_text_of_two_things_does_not_contradict_itself(text):
    assert own_contradiction(text) is None


def test_words_of_the_question_may_be_contradicted_too():
    assert word_consistency("Is the mug red?", "The mug is red.", "The mug is not red.").value == 0.0


def test_true_accounts_of_generated_scenes_contradict_neither_themselves_nor_their_half():
    source = SceneSource()
    for seed in range(40):
        facts = source.draw(np.random.default_rng(seed), "train").facts
        assert contradiction(facts, facts) is None, facts
        assert own_contradiction(facts) is None, facts
        assert contradiction(facts, facts.partition(". ")[0]) is None, facts


SWAPPED = {"left": "right", "right": "left", "above": "below", "below": "above"}
NUMBERS = ["two", "three", "four", "five", "six", "seven"]


def other(sentence: str) -> list[str]:
    """A sentence of a generated scene with another value, or the other way round."""
    if match := re.fullmatch(r"The (.+) is taller than the (.+)\.", sentence):
        return [f"The {match[2]} is taller than the {match[1]}."]
    if match := re.search(r"\b(left|right|above|below)\b", sentence):
        return [sentence.replace(match[0], SWAPPED[match[0]])]
    if match := re.search(r"(\d+):(\d\d)", sentence):
        hour, minutes = int(match[1]) % 12 + 1, (int(match[2]) + 15) % 60
        return [sentence.replace(match[0], new) for new in (f"{hour}:{match[2]}", f"{match[1]}:{minutes:02}")]
    if match := re.search(r'"(\w+)"', sentence):
        return [sentence.replace(match[1], new) for new in ("ZQ" + match[1][-1], match[1][::-1] + "X")]
    if match := re.match(rf"There are ({'|'.join(NUMBERS)}) ", sentence):
        return [sentence.replace(match[1], word, 1) for word in NUMBERS if word != match[1]]
    if match := re.fullmatch(r"The (\w+) is (\w+)\.", sentence):
        return [f"The {match[1]} is {'red' if match[2] != 'red' else 'blue'}."]
    if sentence.startswith("There is no "):
        return [sentence.replace(" no ", " a ")]
    return []


def test_other_values_of_every_generated_fact_earn_nothing_nor_does_saying_both():
    source, met = SceneSource(), collections.Counter[str]()
    for seed in range(40):
        sample = source.draw(np.random.default_rng(seed), "train")
        sentences = re.findall(r"[^.]+\.", sample.facts)
        for sentence in map(str.strip, sentences):
            for wrong in other(sentence):
                met[sample.category] += 1
                changed = sample.facts.replace(sentence, wrong)
                assert word_consistency(sample.question, sample.facts, changed).value == 0.0, changed
                assert word_consistency(sample.question, sample.facts, f"{sample.facts} {wrong}").value == 0.0, wrong
        assert word_consistency(sample.question, sample.facts, sample.facts).value == 1.0
    assert {"count", "attribute", "relation", "comparison"} <= set(met), met


WORDS = ["the mug", "is", "not", "red", "blue", "no", "left of", "the tree", "three", ".", ",", "it", "and", "isn't"]


@given(st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=4)), max_size=40).map(" ".join))
def test_no_text_raises_and_none_contradicts_itself(text):
    assert contradiction(text, text) is None


def test_walls_of_text_take_bounded_time():
    start = time.process_time()
    for piece in ("no red mug. ", "left ", "3", "the mug is not red and ", "the clock shows ", "red or "):
        text = (piece * 100_000)[: MAX_TEXT_CHARS // sized(4, soak=1)]
        word_consistency("What?", text, text)
    assert time.process_time() - start < 20


@pytest.mark.parametrize(
    "text",
    [
        "If the clock shows 3:15, the shop is open. The clock shows 4:20.",
        "Perhaps the clock shows 3:15. The clock shows 3:20.",
        "At first the clock shows 3:15, later the clock shows 4:15.",
        "It is wrong that the clock shows 3:15. The clock shows 4:20.",
        "The clock shows 3:15. The watch is on the table. It reads 10:10.",
        "The sign says STOP. The man next to the sign says 'hello'.",
        "The tree is taller than the lamp. The lamp is not taller than the tree.",
        "The cup is above the plate. The plate is not above the cup.",
        "The book is on the table, and the table is not on the book.",
        "The red car is behind the bus. The bus is not behind the car.",
    ],
)
def test_doubt_other_moments_other_things_and_the_same_once_more_are_no_contradiction(text):
    assert own_contradiction(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "The clock shows '3:15'.",
        "Does the clock show 4:20? No, the clock shows 3:15.",
        "The clock shows 3:15. The phone lies beside it. It shows 4:20.",
        "It is wrong that the clock shows 4:20.",
    ],
)
def test_what_a_clock_shows_is_held_against_what_is_said_only(text):
    assert word_consistency("What time is it?", "The clock shows 3:15.", text).value > 0
