"""Killed, interrupted or out of room at any moment, the same command goes on: no episode is repeated, none is lost."""

from __future__ import annotations

import base64
import io
import signal
from collections import Counter

import numpy as np
import pytest
from PIL import Image

from benchmarks.models.board.board import Board
from tests.unit.agents.api.endpoint import FakeEndpoint, hang
from tests.unit.benchmarks.models.playing import ALONE, LAKE, command, lines_of, little_room, played, until

NUM_EPISODES = 12
KEY = {"BOARD_KEY": "sk-only-for-tests"}


@pytest.fixture
def endpoint():
    with FakeEndpoint() as server:
        server.answer = lambda messages: "<think>No.</think><answer>Right</answer>"
        yield server


def words(endpoint, out, *more):
    agent = f"compatible:qwen@{endpoint.base_url},api_key_variable=BOARD_KEY,max_parallel=3"
    options = ["--agent", agent, "--world", f"{LAKE}:max_turns=3", "--episodes", str(NUM_EPISODES), "--out", str(out)]
    return ["run", *options, ALONE, *more]


def run(words, directory, **settings):
    with command(words, directory, environment=KEY, **settings) as started:
        return started.wait(), started


def first_pictures(endpoint):
    """Returns how often each level's first picture was sent at the beginning of an episode."""
    begun = Counter()
    for request in list(endpoint.requests):
        parts = [part for message in request["messages"] for part in message["content"] if isinstance(part, dict)]
        pictures = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
        if len(pictures) == 1:
            begun[_pixels(base64.b64decode(pictures[0].partition(",")[2]))] += 1
    return begun


def _pixels(png):
    with Image.open(io.BytesIO(png)) as image:
        return np.asarray(image.convert("RGB")).tobytes()


def finished(out):
    """Returns the first picture of every level that is on the board."""
    board = Board(out)
    return [_pixels(board.images.load(episode["turns"][0]["images"][0])) for episode in board.episodes()]


@pytest.mark.soak
def test_killed_again_and_again_a_board_is_what_it_would_have_been(endpoint, tmp_path):
    status, _ = run(words(endpoint, tmp_path / "whole"), tmp_path)
    assert status == 0
    whole = played(tmp_path / "whole")
    assert len(whole) == NUM_EPISODES
    endpoint.requests.clear()
    shared = {picture for picture, num in Counter(finished(tmp_path / "whole")).items() if num > 1}

    out, kept = tmp_path / "killed", []
    for num_more in (4, 9, 13):
        with command(words(endpoint, out), tmp_path, environment=KEY) as started:
            wanted = len(endpoint.requests) + num_more
            until(lambda: len(endpoint.requests) >= wanted)  # noqa: B023
            started.send(signal.SIGKILL)
            assert started.wait() == -signal.SIGKILL
        begun = first_pictures(endpoint)
        kept.append((finished(out), begun))
    assert kept[-1][0], "nothing was killed in the middle"
    status, _ = run(words(endpoint, out), tmp_path)
    assert status == 0
    assert played(out) == whole
    assert len(lines_of(out)) == NUM_EPISODES
    begun = first_pictures(endpoint)
    for pictures, before in kept:
        told_apart = set(pictures) - shared  # Two levels may look the same: which one was begun, nobody sees
        assert not any(begun[picture] - before[picture] for picture in told_apart)


def test_ctrl_c_leaves_a_board_of_what_there_is(endpoint, tmp_path):
    out = tmp_path / "board"
    with command(words(endpoint, out), tmp_path, environment=KEY) as started:
        until(lambda: (out / "episodes.jsonl").exists() and len(lines_of(out)) >= 2)
        endpoint.script.extend([hang] * 3)
        until(lambda: not endpoint.script)  # Now everybody waits for the provider
        started.send(signal.SIGINT)
        assert started.wait() == 130
        num_kept = len(lines_of(out))
        assert 2 <= num_kept < NUM_EPISODES
        assert "Stopped: interrupted. The same command resumes." in started.err
        assert "Traceback" not in started.err
        assert started.out.count("compatible:qwen") == 1
    assert not any(line["error"] for line in lines_of(out)), "what Ctrl-C ended is no failure of the provider's"
    status, _ = run(words(endpoint, out), tmp_path)
    assert status == 0
    assert len(lines_of(out)) == len(played(out)) == NUM_EPISODES


def test_a_second_ctrl_c_quits_at_once(tmp_path):
    agent = "tests.unit.benchmarks.models.playing:Stubborn"
    out = tmp_path / "board"
    with command(["run", "--agent", agent, "--world", LAKE, ALONE, "--out", str(out)], tmp_path) as started:
        until(lambda: "asleep" in started.out)
        started.send(signal.SIGINT)
        until(lambda: "Ctrl-C again quits at once" in started.err)
        assert started.process.is_alive()
        started.send(signal.SIGINT)
        assert started.wait() == 130
        assert "Traceback" not in started.err


def test_a_full_disk_is_one_line_and_the_same_command_goes_on(endpoint, tmp_path):
    out = tmp_path / "board"
    status, full = run(words(endpoint, out), tmp_path / "said", prepare=little_room)
    assert status == 2
    (error,) = [line for line in full.err.splitlines() if line.startswith("error:")]
    assert "Cannot write to" in error
    assert "the same command" in error
    assert "Traceback" not in full.err
    num_kept = len(lines_of(out))
    assert (out / "episodes.jsonl").read_bytes().endswith(b"\n")
    assert 0 < num_kept < NUM_EPISODES
    status, _ = run(words(endpoint, out), tmp_path / "said")
    assert status == 0
    assert len(lines_of(out)) == len(played(out)) == NUM_EPISODES


def test_two_commands_on_one_board(endpoint, tmp_path):
    out = tmp_path / "board"
    endpoint.script.extend([hang] * 3)
    with command(words(endpoint, out), tmp_path / "first", environment=KEY) as first:
        until(lambda: not endpoint.script)
        status, second = run(words(endpoint, out), tmp_path / "second")
        assert status == 2
        assert second.err == (
            f"error: Another command is writing to {out} (process {first.process.pid}). Wait until it has finished, or "
            "name another folder.\n"
        )
        first.send(signal.SIGKILL)
        first.wait()
    status, _ = run(words(endpoint, out), tmp_path / "third")
    assert status == 0
    assert len(played(out)) == NUM_EPISODES
