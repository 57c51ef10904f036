"""Arguments of the checks: bounds, ranges, and the form that tools take."""

import json

import pytest

pydantic = pytest.importorskip("pydantic", reason="needs pydantic: pip install '.[tools]'")

from vlm_envs.tools.instruction_checkers import (  # noqa: E402
    CHECKERS,
    MAX_COUNT,
    MAX_ITEMS,
    MAX_SUBSTRING_CHARS,
    Constraint,
)

WORDS = "check_whether_response_word_count_in_range"
RANGES = "check_whether_each_paragraph_sentence_number_in_range_list"
KEYWORDS = "check_whether_each_keyword_in_list_mentioned_in_range"
ABSENT = "check_whether_whole_response_not_contain_certain_substring"
BEGINS = "check_whether_whole_response_begin_with_certain_substring"
PRECISION = "check_number_precision_in_response"


@pytest.mark.parametrize(
    ("checker", "arguments", "message"),
    [
        (WORDS, {"lower_bound": 5, "upper_bound": 3}, "the lower bound 5 is above the upper bound 3"),
        (WORDS, {"lower_bound": -1, "upper_bound": 3}, "greater than or equal to 0"),
        (WORDS, {"lower_bound": 0, "upper_bound": MAX_COUNT + 1}, "less than or equal to"),
        (WORDS, {"lower_bound": True, "upper_bound": 3}, "valid integer"),
        (WORDS, {"lower_bound": "1", "upper_bound": 3}, "valid integer"),
        (WORDS, {"lower_bound": 1.5, "upper_bound": 3}, "valid integer"),
        (WORDS, {"lower_bound": 1}, "Field required"),
        (WORDS, {"lower_bound": 1, "upper_bound": 2, "extra": 3}, "Extra inputs"),
        (RANGES, {"ranges": []}, "at least 1"),
        (RANGES, {"ranges": [[1, 2]] * (MAX_ITEMS + 1)}, "at most 100"),
        (RANGES, {"ranges": [[1, 2], [3, 2]]}, "the lower bound 3 is above the upper bound 2"),
        (RANGES, {"ranges": [[1, 2, 3]]}, "at most 2"),
        (RANGES, {"ranges": [1, 2]}, "valid tuple"),
        (KEYWORDS, {"keywords": [], "lower_bound_times": 0, "upper_bound_times": 1}, "at least 1"),
        (KEYWORDS, {"keywords": [" "], "lower_bound_times": 0, "upper_bound_times": 1}, "white space alone"),
        (KEYWORDS, {"keywords": ["a"], "lower_bound_times": 2, "upper_bound_times": 1}, "above the upper bound"),
        (KEYWORDS, {"keywords": "cat", "lower_bound_times": 0, "upper_bound_times": 1}, "valid tuple"),
        (ABSENT, {"substring": ""}, "at least 1 character"),
        (ABSENT, {"substring": "x" * (MAX_SUBSTRING_CHARS + 1)}, "at most 1000 characters"),
        (BEGINS, {"substring": " \n"}, "white space alone"),
        (PRECISION, {"precision": -1}, "greater than or equal to 0"),
    ],
)
def test_unusable_arguments_are_refused(checker, arguments, message):
    with pytest.raises(pydantic.ValidationError, match=message):
        Constraint.of(checker, **arguments)


def test_white_space_may_be_forbidden():
    constraint = Constraint.of(ABSENT, substring="  ")
    assert not constraint.check("two  spaces").passed
    assert constraint.check("one space").passed


def test_arguments_are_values():
    first = Constraint.of(RANGES, ranges=[[1, 2], [3, 3]])
    second = Constraint.of(RANGES, ranges=((1, 2), (3, 3)))
    assert first == second
    assert hash(first) == hash(second)


@pytest.mark.parametrize("name", CHECKERS)
def test_a_tool_takes_the_same_arguments_and_the_name_of_a_text(name):
    checker = CHECKERS[name]
    schema = checker.tool_arguments.model_json_schema()
    assert set(schema["properties"]) == {"response", *checker.arguments.model_fields}
    assert set(schema["required"]) == set(schema["properties"])
    assert schema["additionalProperties"] is False
    assert json.loads(json.dumps(schema)) == schema


def test_schemas_bound_lists_as_lists():
    ranges = CHECKERS[RANGES].tool_arguments.model_json_schema()["properties"]["ranges"]
    assert (ranges["type"], ranges["minItems"], ranges["maxItems"]) == ("array", 1, MAX_ITEMS)


def test_lists_of_json_pass_the_strict_validation_of_tools():
    model = CHECKERS[RANGES].tool_arguments
    arguments = model.model_validate(json.loads('{"response": "text_0", "ranges": [[1, 2]]}'), strict=True)
    assert CHECKERS[RANGES].check("A cat. A dog.", arguments).passed
