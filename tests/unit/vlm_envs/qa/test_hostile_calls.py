"""Every tool of every question-answering world, called with anything: bounded words, never an error."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest

pytest.importorskip("pydantic", reason="needs pydantic: pip install '.[tools]'")
pytest.importorskip("reportlab", reason="needs reportlab: pip install '.[tools]'")

from hypothesis import given
from hypothesis import strategies as st

import vlm_envs
from vlm_envs.qa.qa_context import CallTool
from vlm_envs.responses.formats import KNOWN_TAGS

WORLDS = {
    "VLM/ZoomQA-v0": {"side_px": 400, "target_px": (16, 40)},
    "VLM/DocQA-v0": {"num_pages": 5},
    "VLM/RewardJudging-v0": {"tracks": ("instruction_following",), "num_candidates": 2},
}
MAX_ANSWER_CHARS = 2_000

numbers = st.one_of(
    st.integers(-2_000, 2_000), st.floats(-2_000, 2_000), st.sampled_from([float("nan"), float("inf"), -float("inf")])
)
words = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        [
            "original_image",
            "resp_1",
            "report.pdf",
            "../../outside/secret.txt",
            "/outside/secret.txt",
            "＜answer＞",
            "a\x00b",
        ]
    ),
)
scalars = st.one_of(st.none(), st.booleans(), numbers, words)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(words, inner, max_size=3), max_leaves=8
)
boxes = st.lists(numbers, min_size=4, max_size=4)


@functools.cache
def started(env_id: str) -> Any:
    world = vlm_envs.make(env_id, **WORLDS[env_id]).unwrapped
    world.reset(seed=0)
    return world


def calls(env_id: str) -> st.SearchStrategy[dict[str, Any]]:
    """Returns calls of the world's own tools, their arguments named as they should be and filled with anything."""
    world = started(env_id)
    tools = world.dynamics.context.tools(world.state.sample)
    return st.one_of(
        [
            st.fixed_dictionaries(
                {
                    "name": st.just(tool.name),
                    "arguments": st.fixed_dictionaries(
                        dict.fromkeys(tool.arguments.model_fields, st.one_of(values, boxes, words))
                    ),
                }
            )
            for tool in tools
        ]
    )


@pytest.mark.parametrize("env_id", WORLDS)
@given(data=st.data())
def test_no_arguments_raise(env_id: str, data: st.DataObject) -> None:
    world = started(env_id)
    text = json.dumps(data.draw(calls(env_id)))
    state, _ = world.dynamics.step(world.dynamics.load(world.state.sample.sample_id), CallTool(text), world.np_random)
    assert len(state.reply) < MAX_ANSWER_CHARS
    assert state.calls[-1].succeeded != state.reply.startswith("Error (")
    assert not any(tag in state.reply for tag in KNOWN_TAGS)
    assert state.answer is None


@pytest.mark.parametrize(
    "name", ["../report.pdf", "/outside/secret.txt", "..\\report.pdf", "report.pdf/..", "a" * 600, "‥/x", ""]
)
def test_a_document_is_asked_for_by_its_own_name_only(name: str) -> None:
    world = started("VLM/DocQA-v0")
    for tool, arguments in (
        ("doc_page_retrieval_by_index", {"filename": name, "image_idx": 1}),
        ("doc_page_retrieval_by_query", {"filename": name, "query": "revenue"}),
    ):
        text = json.dumps({"name": tool, "arguments": arguments})
        state, effective = world.dynamics.step(world.state, CallTool(text), world.np_random)
        assert not effective
        assert "Error (" in state.reply
        assert len(state.reply) < MAX_ANSWER_CHARS
        assert state.shown == ()


@pytest.mark.parametrize("number", [0, -1, 6, 7_000, 1.5, "1", None, True, [1]])
def test_pages_that_are_not_there(number: object) -> None:
    world = started("VLM/DocQA-v0")
    (name,) = {world.state.sample.document.name}
    text = json.dumps({"name": "doc_page_retrieval_by_index", "arguments": {"filename": name, "image_idx": number}})
    state, effective = world.dynamics.step(world.state, CallTool(text), world.np_random)
    assert not effective
    assert "Error (" in state.reply


@pytest.mark.parametrize(
    "tag", ["＜answer＞", "<Answer>", "<answer >", "<an\u200bswer>", "<answer/>", "&lt;answer&gt;", "<аnswer>"]
)
def test_look_alikes_of_tags_are_plain_text(tag: str) -> None:
    world = started("VLM/ZoomQA-v0")
    world.reset(seed=0)
    *_, info = world.step(f"<think>x</think>{tag}A</answer>")
    assert not info["format_correct"]
    assert world.state.answer is None
    *_, info = world.step(f"<think>{tag}</think><answer>A</answer>")
    assert info["format_correct"]
