"""Progress says how far each agent is and all of them, on a terminal in place, in a log now and then."""

from __future__ import annotations

import io

import pytest

from benchmarks.models.measures.measures import rows
from benchmarks.models.play.board_progress import Pace, Progress, ProgressDisplay, RunProgress, duration, told
from tests.unit.benchmarks.models.made import episode
from vlm_envs.statistics.success_rates import cluster_of


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


@pytest.fixture
def progress():
    """Of two agents: one after eight of 20 episodes, two of which failed, and one that has only begun."""
    pace = Pace(began=100.0)
    quick = Progress(agent="quick", world="A", num_wanted=10, pace=pace)
    later = Progress(agent="quick", world="B", num_wanted=10, pace=pace)
    for number, (solved, failed) in enumerate([(True, False)] * 4 + [(False, False)] * 2 + [(False, True)] * 2):
        pace.num_ended += 1
        quick.add(solved=solved, failed=failed, tokens=500, usd=0.125, cluster=number)
    return RunProgress(parts=[quick, later, Progress(agent="slow", world="A", num_wanted=4)])


def test_an_agent_is_told_over_all_its_worlds(progress):
    quick, slow = progress.agents(now=120.0)
    assert quick.eta_s == pytest.approx(20 / 8 * 14)
    assert told(quick) == "quick: 6/20, success 0.67, 2 errors, 4,000 tokens, 1.00 USD, 35 s left"
    assert told(slow) == "slow: 0/4"


def test_all_of_them_take_as_long_as_the_slowest(progress):
    assert progress.all(now=120.0).eta_s is None  # one agent has no estimate yet
    slow = progress.parts[2]
    slow.pace.began, slow.pace.num_ended = 20.0, 2
    for _ in range(2):
        slow.add(solved=True, failed=False, tokens=0, usd=None, cluster=0)
    everybody = progress.all(now=120.0)
    assert everybody.eta_s == pytest.approx(100 / 2 * 2)
    assert (everybody.num_done, everybody.num_wanted, everybody.num_successes, everybody.tokens) == (8, 24, 6, 4000)
    assert everybody.usd is None  # one price is not known, so the sum is not
    assert "USD" not in told(everybody)
    assert "success" in told(everybody)
    assert "success" not in told(everybody, is_sum=True)
    slow.is_over = True
    assert progress.all(now=120.0).eta_s == pytest.approx(20 / 8 * 14)


def test_a_search_of_lazy_does_not_count_towards_the_pace():
    pace = Pace(began=-1e6, num_ended=3)
    assert pace.left_s(0, 0.0) == 0
    pace.restart()
    assert pace.left_s(64, pace.began + 10) is None, "nothing has ended since"
    pace.num_ended += 2
    assert pace.left_s(64, pace.began + 10) == pytest.approx(64 * 5)


def test_the_running_interval_is_that_of_the_boards_row():
    """Six questions about each of two images, three about a third, and failed tries, which count for nothing."""
    lines = [episode(seed=seed, success=seed % 4 > 0, cluster=f"image {seed // 6}") for seed in range(15)]
    progress = Progress(agent="A", world="W", num_wanted=15)
    assert progress.half_width == 0.5
    for line in lines:
        progress.add(solved=line["success"], failed=False, tokens=0, usd=None, cluster=cluster_of(line))
    progress.add(solved=False, failed=True, tokens=0, usd=None, cluster="image 3")
    low, high = rows(lines)[0].interval
    assert progress.half_width == (high - low) / 2 > 0.2


def test_a_log_gets_whole_lines_and_not_too_many(progress):
    stream = io.StringIO()
    with ProgressDisplay(stream) as display:
        for _ in range(50):
            display.show(progress)
        assert [line.split(":")[0] for line in stream.getvalue().splitlines()] == ["quick", "slow", "all agents"]
        for part in progress.parts:
            part.is_over = True
        display.show(progress)
    assert len(stream.getvalue().splitlines()) == 6
    assert "\x1b" not in stream.getvalue()


def test_a_terminal_is_written_over(progress, monkeypatch):
    monkeypatch.setattr("benchmarks.models.play.board_progress._INTERVAL_S", 0.0)
    stream = Terminal()
    with ProgressDisplay(stream) as display:
        display.show(progress)
        progress.parts[2].add(solved=True, failed=False, tokens=0, usd=0.0, cluster=0)
        display.show(progress)
    assert stream.getvalue().count("\x1b[3F\x1b[J") == 2  # before the second time, and at the end


def test_while_a_person_plays_nothing_is_shown(progress):
    stream = Terminal()
    display = ProgressDisplay(stream)
    display.pause(is_paused=True)
    display.show(progress)
    assert "quick" not in stream.getvalue()
    display.pause(is_paused=False)
    display.show(progress)
    assert "quick: 6/20" in stream.getvalue()


def test_times_are_told_for_people():
    assert [duration(seconds) for seconds in (4.2, 89, 600, 9000)] == ["4 s", "89 s", "10 min", "2.5 h"]
