"""Spans of an iteration, on the rows they belong to, drawn and written."""

import json
from types import SimpleNamespace

import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[train]'")

from benchmarks.__main__ import main
from benchmarks.timeline.draw import length_s, trace, write
from benchmarks.timeline.spans import (
    ANSWERED,
    JUDGE,
    SAMPLING,
    UPDATE,
    WORLD,
    Judged,
    SamplingSpans,
    Span,
    judge_spans,
    text_of,
    world_spans,
)


def span(kind, row, start_s, end_s):
    return Span(kind=kind, row=row, start_s=start_s, end_s=end_s)


def episode(*turns):
    """Returns an episode of turns, each what was said and when the world answered."""
    said = [SimpleNamespace(response_text=text, info={ANSWERED: answered_s}) for text, *answered_s in turns]
    return SimpleNamespace(turns=said, seed=0)


def test_worlds_and_judges_are_on_their_rows():
    episodes = [
        episode(("left", 1, 2), ("up", 4, 9)),
        episode(("left", 1, 3), ("up", 5, 6)),
        episode(("right", 1, 2)),
    ]
    worlds = world_spans(episodes)
    answered = [(0, 1, 2), (0, 4, 9), (1, 1, 3), (1, 5, 6), (2, 1, 2)]
    assert worlds == [span(WORLD, row, start_s, end_s) for row, start_s, end_s in answered]
    judged = [Judged(text=text_of(episodes[row]), start_s=at, end_s=at + 1) for row, at in ((2, 2), (0, 6))]
    # Rows 0 and 1 said the same and are one question, which row 1 came to first
    assert judge_spans(judged, episodes, worlds) == [span(JUDGE, 2, 2, 3), span(JUDGE, 1, 6, 7)]


class Batches:
    """Responds with one pass a token, as many as the longest row has."""

    def __init__(self, backbone, lengths):
        self.backbone, self.lengths = backbone, lengths

    def respond(self, rows, observations):
        for _ in range(max(self.lengths)):
            self.backbone.forward()
        return [SimpleNamespace(response_ids=[0] * length) for length in self.lengths]


def test_in_step_a_row_is_over_with_its_own_last_token(monkeypatch):
    times = iter(range(100))
    monkeypatch.setattr("benchmarks.timeline.spans.time.perf_counter", lambda: next(times))
    backbone = SimpleNamespace(forward=lambda: None)
    agent = Batches(backbone, [5, 2])
    noted = SamplingSpans(agent, backbone)
    agent.respond([3, 4], [None, None])
    assert noted.spans == [span(SAMPLING, 3, 0, 5), span(SAMPLING, 4, 0, 2)]


class Requests:
    """Answers what was asked for one row after the other."""

    def __init__(self):
        self.asked = []

    def add_request(self, row, observation):
        self.asked.append(row)

    def step(self):
        return {self.asked.pop(): "response"}


def test_out_of_step_a_row_lasts_from_its_request_to_its_response(monkeypatch):
    times = iter(range(100))
    monkeypatch.setattr("benchmarks.timeline.spans.time.perf_counter", lambda: next(times))
    agent = Requests()
    noted = SamplingSpans(agent, None)
    agent.add_request(0, None)
    agent.add_request(1, None)
    assert (agent.step(), agent.step()) == ({1: "response"}, {0: "response"})
    assert noted.spans == [span(SAMPLING, 1, 1, 2), span(SAMPLING, 0, 0, 3)]


ITERATIONS = {
    "in step": [span(SAMPLING, 0, 0, 0.5), span(WORLD, 1, 0.5, 1.0), span(UPDATE, None, 1.0, 2.5)],
    "async": [span(SAMPLING, 0, 0, 0.25), span(UPDATE, None, 1.0, 2.0)],
}


def test_the_trace_has_a_thread_for_each_episode_and_microseconds():
    assert length_s(ITERATIONS["in step"]) == 2.5
    events = trace(ITERATIONS)["traceEvents"]
    names = {(each["pid"], each["tid"]): each["args"]["name"] for each in events if each["name"] == "thread_name"}
    assert names == {
        **{(0, 0): "learner", (0, 1): "episode 0", (0, 2): "episode 1"},
        **{(1, 0): "learner", (1, 1): "episode 0"},
    }
    (world,) = (each for each in events if each["name"] == WORLD)
    assert (world["ph"], world["pid"], world["tid"], world["ts"], world["dur"]) == ("X", 0, 2, 500_000, 500_000)


def test_both_files_are_written(tmp_path):
    picture, traced = write(ITERATIONS, tmp_path / "new" / "folder")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert json.loads(traced.read_text(encoding="utf-8")) == trace(ITERATIONS)


def test_wrong_options_are_told(capsys):
    assert main(["timeline", "--num-groups", "0"]) == 2
    assert "--num-groups must be at least 1" in capsys.readouterr().err


@pytest.mark.soak
def test_two_iterations_are_recorded_and_drawn(tmp_path, capsys):
    assert main(["timeline", "--num-groups", "1", "--world-ms", "5", "--judge-ms", "5", "--out", str(tmp_path)]) == 0
    assert "--rollout async" in capsys.readouterr().out
    events = json.loads((tmp_path / "timeline.json").read_text(encoding="utf-8"))["traceEvents"]
    for process in range(2):
        kinds = [each["name"] for each in events if each["ph"] == "X" and each["pid"] == process]
        assert set(kinds) == {"sampling", "world", "judge", "update"}
        assert kinds.count("sampling") == kinds.count("world") >= 4  # a turn or more of each sibling
        assert kinds.count("update") == 1
