"""A function from messages to text plays: it gets the whole conversation, and what it raises is no answer."""

from __future__ import annotations

import asyncio
import base64
import functools
import io
import threading
from concurrent.futures import CancelledError
from contextlib import closing
from itertools import count

import numpy as np
import pytest
from PIL import Image

from agents.answering import answering
from agents.callable_agent import CallableAgent, name_of
from agents.rollout import rollout
from tests.unit.agents.worlds import WORLD, made
from vlm_envs.errors import ConfigError
from vlm_envs.trajectory import failure_of
from vlm_envs.vector.vector_world import VectorWorld

RIGHT = "<think>No.</think><answer>Right</answer>"


def played(function, num_envs=1, **kwargs):
    """Returns an episode per world."""
    agent = CallableAgent(function, num_parallel=num_envs)
    with VectorWorld([functools.partial(made, **kwargs)] * num_envs) as worlds:
        try:
            return rollout(agent, worlds, range(num_envs), env_ids=[WORLD] * num_envs)
        finally:
            agent.close()


def test_it_gets_the_whole_conversation_in_the_common_chat_format():
    asked = []

    def function(messages):
        asked.append([dict(message) for message in messages])
        messages.clear()
        return RIGHT

    (episode,) = played(function, system_prompt=True)
    assert len(episode.turns) == len(asked) > 1
    system, first, said, second = asked[1]
    assert [each["role"] for each in (system, first, said, second)] == ["system", "user", "assistant", "user"]
    assert system["content"] == [{"type": "text", "text": episode.turns[0].observation["system"]}]
    assert said["content"] == [{"type": "text", "text": RIGHT}]
    assert asked[0] == [system, first]
    for turn, message in zip(episode.turns, (first, second), strict=False):
        image, text = message["content"]
        assert text == {"type": "text", "text": turn.observation["text"]}
        head, _, data = image["image_url"]["url"].partition(",")
        assert (image["type"], head) == ("image_url", "data:image/png;base64")
        with Image.open(io.BytesIO(base64.b64decode(data))) as shown:
            assert np.array_equal(shown, turn.observation["image"])


def test_calls_run_side_by_side():
    together, turns = threading.Barrier(3, timeout=30), count()

    def function(messages):
        if next(turns) < 3:
            together.wait()  # broken, and an error, unless all of them are there
        return RIGHT

    assert not any(map(failure_of, played(function, 3)))


def test_coroutines_are_awaited_together_and_share_a_loop_from_rollout_to_rollout():
    limit, num_waiting = asyncio.Semaphore(1), 0

    async def function(messages):
        nonlocal num_waiting
        async with limit:  # belongs to the first loop in which somebody waits for it
            num_waiting += limit.locked()
            await asyncio.sleep(0.001)
        return RIGHT

    class Model:
        async def __call__(self, messages):
            return await function(messages)

    for each in (function, Model(), lambda messages: function(messages), functools.partial(function)):
        assert not any(map(failure_of, played(each, 3)))
    assert num_waiting


_ERRORS = ValueError("no\nkey"), SystemExit(2), KeyboardInterrupt()


@pytest.mark.parametrize(
    ("error", "is_async"),
    [(StopIteration(), False), *((error, is_async) for error in _ERRORS for is_async in (False, True))],
)
def test_what_it_raises_ends_its_episode_with_the_reason(error, is_async):
    turns = count()

    def function(messages):
        if next(turns) == 1:
            raise error
        return RIGHT

    async def coroutine(messages):
        return function(messages)

    (episode,) = played(coroutine if is_async else function)
    assert len(episode.turns) == 2 and not episode.success
    assert type(error).__name__ in failure_of(episode)
    if isinstance(error, ValueError):
        assert failure_of(episode) == "ValueError: no key"


@pytest.mark.parametrize("said", [None, b"Right", ["Right"], 3])
def test_a_function_that_returns_no_text_is_told_so(said):
    def planner(messages):
        return said

    with pytest.raises(ConfigError, match="agent planner must return a text; got "):
        played(planner)


@pytest.mark.parametrize("said", ["", " ", "\ud800", "<answer>"])
def test_any_text_is_an_answer(said):
    asked = []

    def function(messages):
        asked.append(messages)
        return said

    (episode,) = played(function)
    assert not failure_of(episode) and episode.turns[0].response_text == said
    asked[-1][-2]["content"][0]["text"].encode()
    assert asked[-1][-2]["content"][0]["text"].strip()


def test_closing_it_gives_up_calls_that_are_under_way():
    called, released = threading.Event(), threading.Event()

    def function(messages):
        called.set()
        released.wait(30)
        return RIGHT

    agent = CallableAgent(function, num_parallel=1)
    with closing(answering(agent)) as asked:
        response = asked.submit(0, {"text": "?"})
        assert called.wait(30)
    with pytest.raises(CancelledError):
        response.result(30)
    released.set()


def test_its_name_is_that_of_the_function():
    def planner(messages, *, depth=1):
        return RIGHT

    functions = planner, functools.partial(planner, depth=2), lambda _: RIGHT, CallableAgent(planner)
    names = [name_of(each) for each in functions]
    assert names == ["planner", "planner", "lambda", "CallableAgent"]
