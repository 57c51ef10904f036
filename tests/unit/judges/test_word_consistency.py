"""The consistency judge by words: boxes inside sentences, paraphrases, and words that a text does not affirm."""

from __future__ import annotations

import time

import pytest

from judges.word_consistency import word_consistency
from tests.unit.slow import sized
from vlm_envs.responses.extraction import MAX_TEXT_CHARS


def grade(reference: str, text: str, question: str = "What?") -> float:
    return word_consistency(question, reference, text).value


BOXES = [
    "[1, 2, 3, 4]",
    "[1,2,3,4] [5,6,7,8]",
    "[1, 2, 3, 4], [5, 6, 7, 8]",
    "[1, 2, 3, 4] and [5, 6, 7, 8]",
    "[[1, 2, 3, 4], [5, 6, 7, 8]]",
    "(1, 2, 3, 4)",
    "([1, 2, 3, 4])",
    "(1, 2), (3, 4)",
    "(120, 45)",
    "at [1, 2, 3, 4]",
    "(at [1, 2, 3, 4])",
    ", at [1, 2, 3, 4],",
    "in the box [1, 2, 3, 4]",
    "(bbox: [1, 2, 3, 4])",
    "<box>[1, 2, 3, 4]</box>",
    "<box>1, 2, 3, 4</box>",
    "<|box_start|>(1,2),(3,4)<|box_end|>",
    "<zoom>[[0.5, 2, 3, 4]]</zoom>",
    "[nan, 1e999, 0, 0]",
]


class TestBoxesInSentences:
    @pytest.mark.parametrize("box", BOXES)
    @pytest.mark.parametrize(
        ("reference", "contrary"),
        [
            ("The clock{} shows 3:15.", "The clock shows 4:15."),
            ('The sign{} reads "EXIT".', 'The sign reads "STOP".'),
            ("The mug{} is red.", "The mug is blue."),
            ("The mug is left of the tree{}.", "The mug is right of the tree."),
            ("There are three mugs{}.", "There are five mugs."),
            ("The colour of the mug{} is red.", "The mug is blue."),
            ("The door{} is no longer open.", "The door is open."),
            ("The dog{} is in front of the tree.", "The dog is behind the tree."),
        ],
    )
    def test_a_box_hides_no_contradiction(self, box, reference, contrary):
        reference = reference.format(box if box.startswith(",") else f" {box}")
        assert grade(reference, contrary) == 0.0
        assert grade(contrary, reference) == 0.0

    @pytest.mark.parametrize("box", BOXES)
    def test_a_box_changes_nothing_else(self, box):
        box = box if box.startswith(",") else f" {box}"
        assert grade(f"The mug{box} is red.", "The mug is red.") == 1.0
        assert grade(f"The clock{box} shows 3:15.", "The clock shows 3:15.") == 1.0

    def test_a_reading_belongs_to_the_whole_phrase_before_the_verb(self):
        reference = "The digital clock [1, 2, 3, 4] on the wall [5, 6, 7, 8] says 9:30."
        assert grade(reference, "The digital clock on the wall says 10:30.") == 0.0
        assert grade(reference, "The digital clock on the wall says 9:30.") == 1.0
        assert grade(reference, f"{reference} The digital clock on the desk says 10:30.") > 0.0
        assert grade('The sign above the door is showing "EXIT".', 'The sign above the door is showing "IN".') == 0.0

    @pytest.mark.parametrize("numbers", ["(3)", "[3]", "(3:15)", "(two)"])
    def test_a_number_in_brackets_is_no_box(self, numbers):
        assert grade(f"There are mugs {numbers}.", "There are mugs.") < 1.0

    def test_a_list_of_boxes_may_follow_a_list_of_things(self):
        reference = "A red mug [1, 2, 3, 4], a blue kite [5, 6, 7, 8], and a green tree [9, 10, 11, 12]."
        assert grade(reference, "A red mug, a blue kite, and a green tree.") == 1.0
        assert grade(reference, "A red mug, a yellow kite, and a green tree.") == 0.0


class TestParaphrases:
    @pytest.mark.parametrize(
        ("reference", "text"),
        [
            ("The man holds a mug.", "The man holds a cup."),
            ("There are three buses.", "I count three buses."),
            ("There are three buses.", "I can see three buses."),
            ("One red bus [1, 2, 3, 4]. There are three buses.", "I count three buses, one of them red."),
            ("A bicycle leans on the tree.", "A bike leans on the tree."),
            ("There are two glasses.", "I count 2 glasses in total."),
            ("Three men, two women, and a child.", "3 men, 2 women, and a child."),
        ],
    )
    def test_another_word_for_the_same_thing_is_the_same_content(self, reference, text):
        assert grade(reference, text) == 1.0
        assert grade(text, reference) == 1.0

    def test_two_things_named_apart_stay_two(self):
        assert grade("A cup stands beside a mug.", "A mug stands there.") < 1.0

    @pytest.mark.parametrize(
        ("reference", "text"),
        [
            ("There are three buses.", "I count four buses."),
            ("There is one bus.", "I count three buses."),
            ("The bus is red.", "The buses are blue."),
            ("I count three boxes.", "I count five boxes."),
        ],
    )
    def test_other_forms_of_a_noun_hide_no_contradiction(self, reference, text):
        assert grade(reference, text) == 0.0


VALUES = "black white red orange yellow green blue purple pink brown grey".split()  # noqa: SIM905
NUMBERS = "one two three four five six seven eight nine ten".split()  # noqa: SIM905
SIDES = "left right above below".split()  # noqa: SIM905

UNSAID = {
    "questions of one word": "{}?",
    "questions": "Is it {}?",
    "questions without a mark": "Is it {}.",
    "full-width questions": "Is it {}\uff1f",
    "conditions": "If it is {}, it is {}.",
    "conditions behind": "It is {} if that is so.",
    "doubt": "Maybe {}.",
    "doubt in a sentence": "It may be {}.",
    "guesses": "Perhaps it is {} and {}.",
    "imagined": "Suppose it is {}.",
    "wondering": "I wonder whether it is {}.",
    "options": "It is one of these or {}.",
}


class TestWordsThatAreNotAffirmed:
    @pytest.mark.parametrize("sentence", UNSAID.values(), ids=UNSAID)
    @pytest.mark.parametrize(
        "reference", ["The mug is red.", "There are three chairs.", "The mug is left of the tree.", "It is grey."]
    )
    def test_a_list_of_all_values_is_worth_no_more_than_silence(self, sentence, reference):
        question = "Which of the mug, the tree and the chairs?"
        everything = " ".join(sentence.format(word, word) for word in (*VALUES, *NUMBERS, *SIDES))
        assert grade(reference, f"{question} {everything}", question) == 0.0

    @pytest.mark.parametrize("separator", [", ", ". ", "; ", " and ", " or ", "/", " ", "\n"])
    def test_neither_is_a_bare_list(self, separator):
        question = "Which of the mug and the tree?"
        everything = separator.join((*VALUES, *NUMBERS, *SIDES))
        for lead in ("", "Maybe ", "Perhaps: ", "It is "):
            assert grade("The mug is red.", f"{lead}{everything}.", question) == 0.0

    def test_a_question_longer_than_any_clause_is_one_too(self):
        question = "Which of the mug and the tree?"
        assert grade("The mug is red.", f"Is it {', '.join(VALUES * 20)}?", question) == 0.0

    def test_questions_about_a_count_earn_nothing_whatever_the_count(self):
        asked = " ".join(f"Are there {number} chairs?" for number in NUMBERS)
        for number in NUMBERS[1:]:
            assert grade(f"There are {number} chairs.", asked) == 0.0

    @pytest.mark.parametrize(
        "text",
        [
            "Is the mug blue? No, the mug is red.",
            "I check whether it is blue. The mug is red.",
            "If I look closely, I can tell. The mug is red.",
            "It could be anything; the mug is red.",
        ],
    )
    def test_what_is_said_besides_counts_in_full(self, text):
        assert grade("The mug is red.", text) == 1.0

    def test_a_reference_of_questions_is_not_matched_by_everything(self):
        assert grade("Is the mug red?", "The tree is tall.") < 1.0

    def test_true_lists_of_several_things_are_no_lists_of_values(self):
        text = "A red mug, a blue kite, a green tree, a yellow boat, and a black cat."
        assert grade(text, text) == 1.0
        assert grade(text, "A red mug, a blue kite, a green tree, and a yellow boat.") == 1.0


def test_walls_of_brackets_and_doubt_take_bounded_time():
    start = time.process_time()
    for piece in ("[1,", "[[1, 2], ", "(1 2 3 4) ", "is it red? ", "maybe red or ", "[(", "if ", "1, 2, "):
        text = (piece * 100_000)[: MAX_TEXT_CHARS // sized(4, soak=1)]
        word_consistency("What?", text, text)
    assert time.process_time() - start < 20
