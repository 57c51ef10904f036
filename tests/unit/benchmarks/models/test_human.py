"""A person at a terminal plays one level after the other, and is a row like any other."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.models.board.board import Board
from tests.unit.benchmarks.models.playing import LAKE, lines_of
from tests.unit.slow import quick

CHECKOUT = Path(__file__).parents[4]
WORDS = ["run", "--agent", "human", "--agent", "oracle", "--no-references", "--world", f"{LAKE}:max_turns=2"]
_WAIT_S = 90.0
_PROMPT = r"\n> "
_WITHOUT_NO_COLOR = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}


class Terminal:
    """A command at a terminal of its own."""

    def __init__(self, words, environment):
        self.leader, follower = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks", *words],
            cwd=CHECKOUT,
            stdin=follower,
            stdout=follower,
            stderr=follower,
            env={**_WITHOUT_NO_COLOR, "TERM": "xterm-256color", "COLUMNS": "100", **environment},
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        os.close(follower)
        self.shown = ""

    def read(self):
        """Takes in what is shown, if anything is; False once the terminal is closed."""
        if not select.select([self.leader], [], [], 0.1)[0]:
            return True
        try:
            self.shown += os.read(self.leader, 65536).decode(errors="replace")
        except OSError:
            return False
        return True

    def until(self, pattern, times=1):
        deadline = time.monotonic() + _WAIT_S
        while len(re.findall(pattern, self.shown)) < times:
            assert time.monotonic() < deadline and self.read(), self.shown[-2000:]

    def type(self, text):
        os.write(self.leader, text.encode())

    def end(self):
        deadline = time.monotonic() + _WAIT_S
        while self.read() and time.monotonic() < deadline:
            pass
        status = self.process.wait(_WAIT_S)
        os.close(self.leader)
        return status


@pytest.fixture
def at_terminal():
    started = []

    def start(words, **environment):
        started.append(Terminal(words, environment))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
            each.process.wait()


def test_a_person_is_a_row_like_any_other_and_can_go_on_another_day(at_terminal, tmp_path):
    words = [*WORDS, "--episodes", "2", "--out", str(tmp_path)]
    first = at_terminal(words)
    first.until(_PROMPT)
    assert "▀" in first.shown
    assert "oracle" not in first.shown, "others' progress does not stand between a person and the picture"
    first.type("Up\n")
    for turn in range(1, 2):
        first.until(_PROMPT, times=turn + 1)
        first.type("Left\n")
    first.until(_PROMPT, times=3)  # The second level
    first.type("\x04")  # The end of the input
    assert first.end() == 1
    assert "human failed, at last: the input has ended. The same command tries again." in first.shown
    assert sorted(line["agent"] for line in lines_of(tmp_path)) == ["human", "oracle", "oracle"]

    second = at_terminal(words)
    for turn in range(2):
        second.until(_PROMPT, times=turn + 1)
        second.type("Up\n")
    assert second.end() == 0
    of_person = [episode for episode in Board(tmp_path).episodes() if episode["agent"] == "human"]
    assert len(of_person) == 2
    assert len({episode["seed"] for episode in of_person}) == 2
    assert [turn["actions"] for turn in of_person[0]["turns"]] == [["Up"], ["Left"]]
    assert re.search(r"human +\d\.\d{3} \(\d\.\d{3} to \d\.\d{3}\) +2", second.shown)


@pytest.mark.soak
def test_ctrl_c_at_the_prompt_leaves_a_board(at_terminal, tmp_path):
    terminal = at_terminal([*WORDS, "--episodes", "1", "--out", str(tmp_path)])
    terminal.until(_PROMPT)
    time.sleep(0.5)  # a person takes a moment; a signal right behind the prompt was once not heard
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.end() == 130
    assert "Stopped: interrupted. The same command resumes." in terminal.shown
    assert "Stopping. Ctrl-C again quits at once.\r\x1b[J" in terminal.shown, "nothing of it remains"
    assert "Traceback" not in terminal.shown
    assert Board(tmp_path).episodes() == []


@pytest.mark.parametrize(
    "environment", quick([{"TERM": "dumb"}, {"TERM": "vt100"}, {"NO_COLOR": "1"}], {"TERM": "dumb"})
)
@pytest.mark.soak
def test_nobody_plays_blind(environment, at_terminal, tmp_path):
    terminal = at_terminal([*WORDS, "--episodes", "1", "--out", str(tmp_path / "board")], **environment)
    assert terminal.end() == 2
    assert "--agent human,window=True" in terminal.shown
    assert not (tmp_path / "board").exists()
