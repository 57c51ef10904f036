"""What is told at the end of a run is true then, and names what helps."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from agents.agent import Response
from agents.oracle import OracleAgent
from benchmarks.models.board.board import Board
from benchmarks.models.cli.endings import told_of, unread_of
from benchmarks.models.measures.measures import rows
from tests.unit.benchmarks.models.playing import LAKE, contestant, play


class Priced(OracleAgent):
    """An oracle behind an endpoint whose every response costs a dollar, or fails in the same way."""

    def __init__(self, failure="", address="", usd=1.0):
        super().__init__()
        self.failure, self.usd = failure, usd
        self.client = SimpleNamespace(
            price="known", config=SimpleNamespace(key_variable="TOY_KEY", address=address, model="toy")
        )

    def respond(self, rows, observations):
        usage = {} if self.usd is None else {"usd": self.usd, "prompt_tokens": 1.0, "completion_tokens": 1.0}
        stop_reason = "error" if self.failure else "stop"
        said = super().respond(rows, observations)
        return [Response(text=each.text, usage=usage, stop_reason=stop_reason, error=self.failure) for each in said]


def test_what_a_spent_budget_has_cost_is_what_the_table_says(tmp_path):
    run = play(tmp_path, [contestant(Priced(), num_parallel=8)], episodes=16, budget_usd=4.0)
    usd = sum(row.usd for row in rows(Board(tmp_path).episodes()))
    assert usd > 5  # Of those that were under way when it was spent
    assert told_of(run) == [
        f"Stopped: the budget of 4 USD is spent ({usd:.2f} USD on this board). With a higher --budget-usd, the "
        "same command resumes.",
        "8 episodes were not started.",
    ]


def test_who_goes_on_is_told_all_that_was_taken(tmp_path):
    play(tmp_path, [contestant(Priced())], episodes=2)
    both = play(tmp_path, [contestant(Priced())], episodes=4)
    [row] = rows(Board(tmp_path).lines())
    [total] = both.progress.agents()
    assert (total.tokens, total.usd) == (4 * row.tokens, row.usd)
    assert total.num_done == 4


def test_a_budget_that_cannot_be_held_is_not_promised_to_go_on(tmp_path):
    run = play(tmp_path, [contestant(Priced(usd=None), "mute")], budget_usd=4.0)
    assert told_of(run)[0].endswith("Without --budget-usd, the same command resumes.")


@pytest.mark.parametrize(
    ("failure", "address", "told"),
    [
        ("HTTP 401: wrong key", "", "HTTP 401: wrong key. Check the key in TOY_KEY. Then the same command"),
        ("HTTP 404: no model `toy`.", "http://a/v1", "no model `toy`. Check the model's name and the address"),
        ("HTTP 404: Not Found", "http://a", "address, which needs its version, such as /v1. Then the same"),
        ("HTTP 400: At most 0 image(s) may be provided", "http://a/v1", "serve a vision model. Then the same command"),
        ("HTTP 400: this model does not support images", "http://a/v1", "serve a vision model."),
        ("HTTP 422: no such field", "http://a/v1", "Fix its settings. Then the same command tries again."),
        ("HTTP 429: busy", "http://a/v1", "HTTP 429: busy. The same command tries again."),
        ("HTTP 503: busy", "http://a/v1", "HTTP 503: busy. The same command tries again."),
    ],
)
def test_a_failure_is_told_with_what_helps(failure, address, told, tmp_path):
    (said,) = told_of(play(tmp_path, [contestant(Priced(failure, address))], episodes=1))
    assert told in said


def test_who_left_with_a_narrow_interval_is_told(tmp_path):
    # 18 episodes on 17 levels, since one level occurs under two seeds
    run = play(tmp_path, [contestant(OracleAgent(), num_parallel=1)], episodes=200, stop_when_ci=0.1)
    assert told_of(run) == [f"somebody left {LAKE} after 18 of 200 episodes: its interval is narrow enough, ±0.096."]
    assert told_of(play(tmp_path, [contestant(OracleAgent())], episodes=16, stop_when_ci=0.1)) == []


class Limited(OracleAgent):
    """An oracle that stops at a limit of its model in every episode."""

    def __init__(self, stop_reason, detail):
        super().__init__()
        self.stop_reason, self.detail = stop_reason, detail
        self.client = SimpleNamespace(config=SimpleNamespace(max_tokens=64, address="http://a/v1"), price=None)

    def respond(self, rows, observations):
        return [Response(text="", stop_reason=self.stop_reason, stop_detail=self.detail) for _ in rows]


@pytest.mark.parametrize(
    ("stop_reason", "detail", "told"),
    [
        ("context", "maximum context length is 4096 tokens", "4 of 4 episodes exceeded a limit of the model (maximum"),
        ("context", "too many images: 20 > 16", "4 of 4 episodes exceeded a limit of the model (too many images"),
        ("content_filter", "data may contain\ninappropriate content", "refused to answer (data may contain inappr"),
    ],
)
def test_a_limit_of_the_model_is_told_in_the_servers_words(stop_reason, detail, told, tmp_path):
    (said,) = unread_of(play(tmp_path, [contestant(Limited(stop_reason, detail))], episodes=4))
    assert told in said and "\n" not in said
    assert ("history=last_images:N" in said) == (stop_reason == "context")
