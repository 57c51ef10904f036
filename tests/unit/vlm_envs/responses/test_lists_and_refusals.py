"""Lists, and sentences that say a document does not hold the answer."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlm_envs.errors import ConfigError
from vlm_envs.responses.answers import AnswerKey, read_items, score_answer


def key(kind, *answers):
    return AnswerKey(kind=kind, answers=answers)


class TestLists:
    @pytest.mark.parametrize(
        ("answer", "items", "score"),
        [
            # MMLongBench-Doc, eval_score.py: sorted, item by item.
            ("Bob, Alice", ["Alice", "Bob"], 1.0),
            ("['Bob', 'Alice']", ["Alice", "Bob"], 1.0),
            ("Alice and Bob", ["Alice", "Bob"], 1.0),
            ("- Bob\n- Alice", ["Alice", "Bob"], 1.0),
            ("Alice", ["Alice", "Bob"], 0.0),
            ("Alice, Bob, Carl", ["Alice", "Bob"], 0.0),
            ("Alicia, Bob", ["Alice", "Bob"], 4 / 6),  # the least similarity
            ("Sales, Research and Development", ["Research and Development", "Sales"], 1.0),
            ("12, 15, 18", ["12", "15", "18"], 1.0),
            ("18,12,15", ["12", "15", "18"], 1.0),
            ("12, 15, 19", ["12", "15", "18"], 0.0),
            ("12, 15", ["12", "15", "18"], 0.0),
            ("1,200; 5", ["1200", "5"], 1.0),
            ("page 3, page 4", ["page 3", "page 5"], 0.0),
            ("92", ["92"], 1.0),
            ("Alice & Bob", ["Alice", "Bob"], 1.0),
            ("AT&T, Bell", ["AT&T", "Bell"], 1.0),
            ("Jazz and Rock and Roll", ["Rock and Roll", "Jazz"], 1.0),
            ("Jazz and Rock & Roll", ["Rock & Roll", "Jazz"], 1.0),
            ("Jazz and Rock and Roll", ["Rock", "Jazz"], 0.0),
            ("twelve, fifteen, eighteen", ["12", "15", "18"], 1.0),
            ("twelve, fifteen and eighteen", ["12", "15", "18"], 1.0),
            ("twelve, fifteen, nineteen", ["12", "15", "18"], 0.0),
            ("a and " * 300 + "b", ["a", "b"], 0.0),
            ("['it\\'s', \"b\\\"c\"]", ['b"c', "it's"], 1.0),
            (r'["caf\u00e9", "C:\dir"]', ["café", r"C:\dir"], 1.0),
            ("[1.50, 2]", ["2", "1.5"], 1.0),
            ("[Alice, O'Neil]", ["O'Neil", "Alice"], 1.0),
            ("a," * 1_900, ["a", "b"], 0.0),
        ],
    )
    def test_order_does_not_matter_and_every_item_counts(self, answer, items, score):
        assert score_answer(answer, key("list", json.dumps(items))) == pytest.approx(score)

    @pytest.mark.parametrize(
        "answer",
        ["[{[1]}]", "[{[1]: 2}]", "[{{}: 1}]", "[[9], [2]]", "[92, [", "[,]", "[]", "[" * 50, "[1]" * 50,
         "[0x" + "f" * 3_700 + "]", "[" + "9" * 3_900 + "]", "['\\", '["\\ud800"]', "[9" + "**9" * 20 + "]"],
    )  # fmt: skip
    def test_a_tangle_in_brackets_is_wrong_as_an_answer_and_never_raises(self, answer):
        for true in (["92"], ["Alice", "Bob"]):
            assert score_answer(answer, key("list", json.dumps(true))) == 0.0

    @pytest.mark.parametrize("truth", ["[{[1]}]", "[{{}: 1}]", "[[1]]", "[1", "[", '["a", {}]'])
    def test_a_tangle_in_brackets_is_refused_as_a_key(self, truth):
        with pytest.raises(ConfigError):
            key("list", truth)

    @given(st.lists(st.sampled_from([*list("[]{}()'\",:\\ 1axfe\n"), "and ", "0x", "**"]), max_size=40).map("".join))
    def test_no_text_in_brackets_raises(self, inside):
        assert 0.0 <= score_answer(f"[{inside}]", key("list", '["1", "a"]')) <= 1.0

    def test_a_list_has_at_most_two_hundred_items(self):
        items = [str(number) for number in range(200)]
        assert score_answer(", ".join(items), key("list", json.dumps(items))) == 1.0
        assert score_answer(json.dumps(items), key("list", json.dumps(items))) == 1.0
        assert read_items(", ".join([*items, "200"])) == read_items(json.dumps([*items, "200"])) == []
        with pytest.raises(ConfigError):
            key("list", json.dumps([*items, "200"]))


class TestUnanswerable:
    @pytest.mark.parametrize("kind", ["exact", "anls", "number"])
    @pytest.mark.parametrize(
        "answer",
        [
            "Not answerable.",
            "The document does not contain the answer",
            "This report doesn't mention the revenue of 2016.",
            "There is no information about this in the document.",
            "The question cannot be answered from the document.",
            "**It is not specified in the report.**",
            "It cannot be determined from the given pages.",
            "The information is not provided in the document.",
            "The question is not answerable based on the given document",
            "Unanswerable",
            "Not found in the document.",
            "Not mentioned",
            "It is not in the report.",
            "No mention of the revenue in the document",
            "Information not available",
            "There is no data for 2019.",
            "The report has no information on the revenue",
            "No information about the budget is given in the pages.",
            "According to the document, there is no mention of this.",
            "Sorry, the document does not say how many people are in the image.",
            "The document does not contain the answer, so the question cannot be answered.",
            "This cannot be answered because the document does not mention Apple.",
            "There is no such information. It is not answerable.",
        ],
    )
    def test_any_sentence_that_says_so_is_right(self, answer, kind):
        assert score_answer(answer, key(kind, "Not answerable", "Unanswerable")) == 1.0
        assert score_answer(answer, key(kind, "42")) == 0.0

    @pytest.mark.parametrize(
        "answer",
        [
            *("answerable", "42", "none", "The document does not say 2016 but 2015", "Not given here. It is 5."),
            *("Not in the US, in China", "It is not available in blue, only red", "It is not available in blue"),
            *(
                "not found: 12",
                "There is no answer (42)",
                "There is no answer 42",
                "The report has no less than 12 pages",
            ),
            *("The document does not say 5, it says 7", "There is no data for 2019: the value is 12", "Not in China"),
            *("The document does not say 5; 7", "The document does not say 5", "Not available - 12", "not given 12"),
            *(
                "The report contains no pictures",
                "The document does not show cats because it shows dogs",
                "The document does not show cats, dogs",
                "Not found in the document, 12",
                "There is no data, 12",
            ),
            *("It cannot be found in blue", "The document does not list red only", "not listed by name, Bob"),
            *("The document does not say it is red it says blue", "This is a cat not shown in the image, a dog"),
        ],
    )
    def test_everything_else_is_wrong(self, answer):
        assert score_answer(answer, key("anls", "Not answerable")) == 0.0
        assert score_answer(f"**{answer}.**", key("exact", "Not answerable")) == 0.0

    @pytest.mark.parametrize(
        "part", ["not given in the document ", "no data ", "the document does not say ", "it a ", "x, ", "not found. "]
    )
    def test_a_long_sentence_is_read_in_little_time(self, part):
        start_s = time.process_time()
        score_answer(part * (3_900 // len(part)) + "!?", key("exact", "Not answerable"))
        assert time.process_time() - start_s < 1.0
