"""A key is in nothing that a run leaves, whatever its provider does."""

from __future__ import annotations

import json

import pytest

from tests.unit.agents.api.endpoint import FakeEndpoint, completion, half_a_body, no_answer, reset
from tests.unit.benchmarks.models.playing import ALONE, LAKE, command, lines_of

KEY = "sk-qX7-secret-of-ours-81"


def echo(status, *, headers=None):
    """Answers with what was sent to authorise, in every place where there is room for it."""

    def answer(handler):
        said = handler.headers["Authorization"]
        body = json.dumps({"error": {"message": f"bad key {said}", "code": said, "type": said, "param": said}}).encode()
        handler.send(status, body, {"X-Echo": said, **(headers or {})})

    return answer


def echo_at_the_end_of_what_is_shown(handler):
    said = handler.headers["Authorization"].removeprefix("Bearer ")
    body = json.dumps({"error": {"message": "x" * (200 - len(said) // 2) + said}}).encode()
    handler.send(400, body)


def echo_in_plain_text(handler):
    handler.send(500, f"<html>{handler.headers['Authorization']}</html>".encode())


def echo_in_no_reply(handler):
    handler.send(200, json.dumps({"choices": [], "key": handler.headers["Authorization"]}).encode())


def echo_in_half_a_reply(handler):
    handler.send(200, f'{{"choices": "{handler.headers["Authorization"]}'.encode())


def echo_as_the_model(handler):
    handler.send(200, json.dumps(completion(f"My key is {KEY}. <answer>Right</answer>")).encode())


def bad_status_line(handler):
    handler.wfile.write(f"{handler.headers['Authorization']}\r\n\r\n".encode())
    handler.close_connection = True


UGLY = (
    *(echo(status) for status in (400, 401, 403, 404, 418, 422, 500, 503)),
    *(
        echo_at_the_end_of_what_is_shown,
        echo_in_plain_text,
        echo_in_no_reply,
        echo_in_half_a_reply,
        echo_as_the_model,
        bad_status_line,
    ),
    *(half_a_body, no_answer, reset, echo(302, headers={"Location": "/elsewhere"})),
)


def run(endpoint, tmp_path, key):
    """Returns the exit status and the complaints of a run, after a look at all that it left."""
    agent = f"compatible:qwen@{endpoint.base_url},api_key_variable=BOARD_KEY,max_parallel=2,max_attempts=1"
    words = ["run", "--agent", agent, "--world", f"{LAKE}:max_turns=2", "--episodes", "10", ALONE]
    environment = {"BOARD_KEY": key, "OPENAI_LOG": "debug", "PYTHONFAULTHANDLER": "1", "PYTHONASYNCIODEBUG": "1"}
    with command([*words, "--out", str(tmp_path / "board")], tmp_path / "said", environment=environment) as started:
        status = started.wait()
    for path in tmp_path.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        at = content.find(KEY[:10].encode())
        assert at < 0, f"{path.name}: {content[max(0, at - 300) : at + 100]!r}"
    return status, started.err


def test_a_key_is_nowhere(tmp_path):
    with FakeEndpoint() as endpoint:
        endpoint.script.extend(UGLY)
        endpoint.answer = lambda messages: "<think>No.</think><answer>Right</answer>"
        for _ in range(3):
            run(endpoint, tmp_path, KEY)
    assert all(sent == f"Bearer {KEY}" for sent in endpoint.keys)
    errors = [line["error"] for line in lines_of(tmp_path / "board") if line["error"]]
    assert len(errors) >= 10, "nothing went wrong"
    assert sum("…" in error for error in errors) >= 8, "nothing was echoed"


@pytest.mark.parametrize("key", [f"{KEY}\u00e4", f"{KEY}\r\nX-More: 1"], ids=["no ascii", "two lines"])
def test_what_cannot_be_a_key_is_refused_without_showing_it(key, tmp_path):
    with FakeEndpoint() as endpoint:
        status, said = run(endpoint, tmp_path, key)
    assert status == 2
    assert said.splitlines()[-1].startswith("error: The key in the environment variable BOARD_KEY has characters")
    assert not endpoint.requests
