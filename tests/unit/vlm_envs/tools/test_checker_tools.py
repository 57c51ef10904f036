"""The checks as tools."""

import json

import pytest

pytest.importorskip("pydantic", reason="needs pydantic: pip install '.[tools]'")
pytest.importorskip("pysbd", reason="needs pysbd: pip install '.[tools]'")

from vlm_envs.tools.instruction_checkers import CHECKERS
from vlm_envs.tools.instructions import checker_tools
from vlm_envs.tools.tool_errors import ToolErrorKind
from vlm_envs.tools.tool_memory import Memory, TextStore
from vlm_envs.tools.tool_registry import ToolRegistry

REGISTRY = ToolRegistry(checker_tools())
MEMORY = Memory(texts_map=TextStore((("resp_1", "One two three."), ("resp_2", "A 5 <b> here"))))


def call(name: str, **arguments: object) -> tuple[bool, str]:
    import json

    result = REGISTRY.call_text(json.dumps({"name": name, "arguments": arguments}), MEMORY)
    return result.ok, result.text


def test_there_is_a_tool_for_every_check():
    assert REGISTRY.names == tuple(CHECKERS)
    assert all("response" in tool.schema()["function"]["parameters"]["properties"] for tool in REGISTRY)


@pytest.mark.parametrize(("upper", "said"), [(3, "Check result: True."), (2, "Check result: False.")])
def test_a_call_says_whether_the_text_passes_and_nothing_else(upper, said):
    name = "check_whether_response_word_count_in_range"
    assert call(name, response="resp_1", lower_bound=1, upper_bound=upper) == (True, said)


def test_whole_bounds_may_be_written_as_floats():
    name = "check_whether_response_word_count_in_range"
    assert call(name, response="resp_1", lower_bound=1.0, upper_bound=3.0) == (True, "Check result: True.")
    ok, said = call(name, response="resp_1", lower_bound=1.5, upper_bound=3)
    assert not ok and "1.5" in said


def test_profiles_decide():
    name = "check_whether_response_word_count_in_range"
    arguments = {"response": "t", "lower_bound": 2, "upper_bound": 2}
    text = json.dumps({"name": name, "arguments": arguments})
    memory = Memory(texts_map=TextStore((("t", "One — two"),)))
    found = {
        profile: ToolRegistry(checker_tools(profile)).call_text(text, memory).text for profile in ("arm", "mm_ifengine")
    }
    assert found == {"arm": "Check result: False.", "mm_ifengine": "Check result: True."}


def test_unknown_texts_are_explained():
    ok, text = call("check_whether_has_no_arabic_number_in_response", response="resp_3")
    assert not ok
    assert "resp_1, resp_2" in text
    assert ToolErrorKind.UNKNOWN_TEXT.value in text
