"""What happens when in an iteration, by wrapping those who do it; the trainer itself knows nothing of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vlm_envs.trajectory import Trajectory

SAMPLING, WORLD, JUDGE, UPDATE = "sampling", "world", "judge", "update"
ANSWERED = "answered_s"
"""Where a world's `info` says from when to when it answered."""


@dataclass(frozen=True, kw_only=True)
class Span:
    """Something that takes time.

    Attributes:
        kind: What.
        row: Number of the episode; None for what is of all of them.
        start_s: When it began, by the process's clock.
        end_s: When it was over.
    """

    kind: str
    row: int | None
    start_s: float
    end_s: float


class SamplingSpans:
    """Notes from when to when each episode's response is sampled.

    Args:
        agent: A `HFAgent`, of which each row's last token is told by the passes of its model, or a `ContinuousAgent`.
        backbone: What the agent's model makes its passes with.
    """

    def __init__(self, agent: Any, backbone: Any) -> None:
        self.spans: list[Span] = []
        self._asked_s: dict[int, float] = {}
        self._passes_s: list[float] = []
        if hasattr(agent, "add_request"):
            self._wrap_requests(agent)
        else:
            self._wrap_batches(agent, backbone)

    def _wrap_requests(self, agent: Any) -> None:
        add_request, step = agent.add_request, agent.step

        def asked(row: int, observation: Any) -> None:
            self._asked_s[row] = time.perf_counter()
            add_request(row, observation)

        def stepped() -> Any:
            responses = step()
            now_s = time.perf_counter()
            for row in responses:
                self._add(row, self._asked_s.pop(row), now_s)
            return responses

        agent.add_request, agent.step = asked, stepped

    def _wrap_batches(self, agent: Any, backbone: Any) -> None:
        respond, forward = agent.respond, backbone.forward

        def passed(*args: Any, **kwargs: Any) -> Any:
            output = forward(*args, **kwargs)
            self._passes_s.append(time.perf_counter())
            return output

        def responded(rows: Sequence[int], observations: Sequence[Any]) -> Any:
            self._passes_s, started_s = [], time.perf_counter()
            responses = respond(rows, observations)
            for row, response in zip(rows, responses, strict=True):
                self._add(row, started_s, self._passes_s[len(response.response_ids) - 1])
            return responses

        agent.respond, backbone.forward = responded, passed

    def _add(self, row: int, start_s: float, end_s: float) -> None:
        self.spans.append(Span(kind=SAMPLING, row=row, start_s=start_s, end_s=end_s))


def world_spans(episodes: Sequence[Trajectory]) -> list[Span]:
    """Returns from when to when each world answered, as it says itself in `ANSWERED` of its `info`."""
    return [
        Span(kind=WORLD, row=row, start_s=start_s, end_s=end_s)
        for row, episode in enumerate(episodes)
        for start_s, end_s in (turn.info[ANSWERED] for turn in episode.turns)
    ]


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A question to a judge.

    Attributes:
        text: What it was told, as `text_of` an episode.
        start_s: When it was asked.
        end_s: When it had answered.
    """

    text: str
    start_s: float
    end_s: float


def text_of(episode: Trajectory) -> str:
    """Returns what a judge is told of an episode; siblings that said the same are one question."""
    return "\n".join([str(episode.seed), *(turn.response_text for turn in episode.turns)])


def judge_spans(judged: Sequence[Judged], episodes: Sequence[Trajectory], worlds: Sequence[Span]) -> list[Span]:
    """Returns the questions to a judge, each on the row that came to it first.

    Args:
        judged: The questions.
        episodes: Those that it was asked about.
        worlds: When their worlds answered.
    """
    first: dict[str, int] = {}
    for span in sorted(worlds, key=lambda span: span.end_s, reverse=True):
        assert span.row is not None, "a world is an episode's"
        if span.end_s == max(each.end_s for each in worlds if each.row == span.row):
            first[text_of(episodes[span.row])] = span.row
    return [Span(kind=JUDGE, row=first[each.text], start_s=each.start_s, end_s=each.end_s) for each in judged]
