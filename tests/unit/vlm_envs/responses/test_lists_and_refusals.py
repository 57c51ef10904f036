"""Lists, and sentences that say a document does not hold the answer."""

from __future__ import annotations

import json

import pytest

from vlm_envs.responses.answers import AnswerKey, score_answer


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
            ("[" * 3_000, ["92"], 0.0),
            ("a," * 1_900, ["a", "b"], 0.0),
        ],
    )
    def test_order_does_not_matter_and_every_item_counts(self, answer, items, score):
        assert score_answer(answer, key("list", json.dumps(items))) == pytest.approx(score)


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
        ],
    )
    def test_any_sentence_that_says_so_is_right(self, answer, kind):
        assert score_answer(answer, key(kind, "Not answerable", "Unanswerable")) == 1.0
        assert score_answer(answer, key(kind, "42")) == 0.0

    @pytest.mark.parametrize(
        "answer", ["answerable", "42", "none", "The document does not say 2016 but 2015", "Not given here. It is 5."]
    )
    def test_everything_else_is_wrong(self, answer):
        assert score_answer(answer, key("anls", "Not answerable")) == 0.0
