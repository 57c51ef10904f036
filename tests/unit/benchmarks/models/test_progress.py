"""Progress says how far each agent is and all of them, on a terminal in place, in a log now and then."""

from __future__ import annotations

import io

import pytest

from benchmarks.models.measures.measures import rows
from benchmarks.models.play.display import ProgressDisplay, duration, told
from benchmarks.models.play.progress import Progress, RunProgress
from tests.unit.benchmarks.models.made import episode
from vlm_envs.statistics.clusters import cluster_of


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


@pytest.fixture
def progress():
    """Of two agents: one through with half of two worlds after 50 s, one that has only begun."""
    quick = Progress(agent="quick", world="A", num_wanted=10, began=100.0)
    for seed, solved in enumerate((True, True, False)):
        quick.add(solved=solved, failed=False, tokens=1000, usd=0.25, cluster=seed)
    quick.add(solved=False, failed=True, tokens=500, usd=0.25, cluster=3)
    later = Progress(agent="quick", world="B", num_wanted=10)
    return RunProgress(parts=[quick, later, Progress(agent="slow", world="A", num_wanted=4, began=100.0)])


def test_an_agent_is_told_over_all_its_worlds(progress):
    quick, slow = progress.agents(now=150.0)
    # 4 tries in 50 s, and 17 episodes to go
    assert quick.eta_s == pytest.approx(50 / 4 * 17)
    assert told(quick) == "quick: 3/20, success 0.67, 1 error, 3,500 tokens, 1.00 USD, 4 min left"
    assert told(slow) == "slow: 0/4"


def test_all_of_them_take_as_long_as_the_slowest(progress):
    assert progress.all(now=150.0).eta_s is None  # nobody knows yet of one
    progress.parts[2].add(solved=True, failed=False, tokens=0, usd=None, cluster=0)
    everybody = progress.all(now=150.0)
    assert everybody.eta_s == pytest.approx(50 / 4 * 17)
    assert (everybody.num_done, everybody.num_wanted, everybody.num_successes, everybody.tokens) == (4, 24, 3, 3500)
    assert everybody.usd is None  # one price is not known, so the sum is not
    assert "USD" not in told(everybody)
    assert "success" in told(everybody)
    assert "success" not in told(everybody, is_sum=True)
    progress.parts[0].is_over = progress.parts[1].is_over = True
    assert progress.all(now=150.0).eta_s == pytest.approx(50 * 3)


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
    monkeypatch.setattr("benchmarks.models.play.display._INTERVAL_S", 0.0)
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
    assert "quick: 3/20" in stream.getvalue()


def test_times_are_told_for_people():
    assert [duration(seconds) for seconds in (4.2, 89, 600, 9000)] == ["4 s", "89 s", "10 min", "2.5 h"]
