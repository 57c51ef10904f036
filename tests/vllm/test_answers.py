"""What answers of a real server hold beside their text."""

import numpy as np
import pytest

from agents.registry import make_agent
from tests.unit.agents.api.asking import respond_to
from tests.vllm.boards import first_observation

PATHS = ("/v1/chat/completions", "/v1/responses", "/v1/messages")
SHOWN = {"text": "Look.", "image": np.zeros((56, 56, 3), np.uint8)}


def ask(name, shown=SHOWN, **settings):
    agent = make_agent(name, temperature=0, max_attempts=1, **settings)
    try:
        return respond_to(agent, [0], [shown])[0]
    finally:
        agent.close()


@pytest.mark.parametrize("path", PATHS)
def test_an_answer_that_is_cut_off_says_so(path, server, reach):
    answer = ask(reach(server)[path], max_tokens=5)
    assert (answer.stop_reason, answer.usage["completion_tokens"], answer.error) == ("length", 5, "")


@pytest.mark.parametrize("path", PATHS)
def test_what_came_from_the_servers_cache_is_counted(path, server, reach):
    shown = {**SHOWN, "text": f"{path}: " + 60 * "again and "}
    first, second = (ask(reach(server)[path], shown, max_tokens=2) for _ in range(2))
    assert first.usage["prompt_tokens"] == second.usage["prompt_tokens"] > second.usage["cached_tokens"] > 0
    assert first.usage["cached_tokens"] == 0


@pytest.mark.parametrize("path", PATHS)
def test_a_picture_too_many_for_the_server_is_told_in_its_words(path, server, reach):
    answer = ask(reach(server)[path], {"text": "Look.", "images": (SHOWN["image"],) * 5}, max_tokens=2)
    assert answer.stop_reason == "error" and "HTTP 400" in answer.error and "4 image" in answer.error


@pytest.mark.parametrize("path", PATHS)
def test_a_model_that_is_not_there_is_told_in_its_words(path, server, reach):
    answer = ask(reach(server)[path].replace(":tiny", ":huge"))
    assert answer.stop_reason == "error" and "HTTP 404" in answer.error and "huge" in answer.error


@pytest.fixture(scope="module")
def thinking_server(serve):
    """One that tells thoughts, all before `</think>`, from the answer."""
    with serve("--reasoning-parser", "qwen3") as started:
        yield started


@pytest.mark.parametrize("path", PATHS)
def test_thoughts_are_kept_beside_the_text(path, thinking_server, reach):
    answer = ask(reach(thinking_server)[path], first_observation(), max_tokens=96)
    assert answer.stop_reason == "stop"
    assert answer.text.strip().startswith("<answer>") and "<observation>" not in answer.text
    assert answer.thoughts.strip().startswith("<observation>")
    # Anthropic's interface does not count them here
    assert (answer.usage["reasoning_tokens"] > 20) is (path != "/v1/messages")
    assert answer.usage["completion_tokens"] > answer.usage["reasoning_tokens"]
