"""A person at a terminal: keys, pictures of half blocks, and whole sessions."""

import os
import pty
import select
import subprocess
import sys
import termios
import time
from pathlib import Path

import numpy as np
import pytest

from tests.unit.vlm_envs.cli.test_cli import SOKOBAN_LEVEL, SOKOBAN_SOLUTION
from vlm_envs.cli.session import Session
from vlm_envs.cli.terminal import colors_of, half_blocks, read_keys

CHECKOUT = Path(__file__).parents[4]

SOKOBAN_GOAL = "Push every box onto a target."
ARROWS = {"Up": b"\x1b[A", "Down": b"\x1b[B", "Right": b"\x1b[C", "Left": b"\x1b[D"}


class FakeTerminal:
    """A stream that says whether it is a terminal."""

    def __init__(self, *, is_a_tty: bool) -> None:
        self.is_a_tty = is_a_tty

    def isatty(self) -> bool:
        return self.is_a_tty


def read_until(descriptor: int, wanted: str, timeout_s: float = 60.0) -> str:
    """Returns what a terminal shows up to and including `wanted`."""
    shown, end = "", time.monotonic() + timeout_s
    while wanted not in shown:
        assert select.select([descriptor], [], [], max(0.0, end - time.monotonic()))[0], f"{wanted!r} not in {shown!r}"
        shown += os.read(descriptor, 65536).decode(errors="replace")
    return shown


# --- Keys -------------------------------------------------------------------------------


def test_keys_of_both_arrow_forms_and_letters():
    reader, writer = os.pipe()
    os.write(writer, b"\x1b[A\x1bOBaDx\x1b[C\xc3\xb6rnq\x03")
    os.close(writer)
    keys = Session("VLM/FrozenLake-v0").keys()
    lines = [keys[key] for key in read_keys(reader) if key in keys]
    os.close(reader)
    assert lines == ["Up", "Down", "Left", "Right", "Right", "r", "n", "q", "q"]


def test_page_up_is_one_key():
    reader, writer = os.pipe()
    os.write(writer, b"\x1b[5~\x1b[6~")
    os.close(writer)
    assert list(read_keys(reader)) == ["PageUp", "PageDown"]
    os.close(reader)


# --- Pictures and words ---------------------------------------------------------------------------


def test_half_blocks_hold_two_pixels_a_character():
    red, green, blue = (255, 0, 0), (0, 255, 0), (0, 0, 255)
    image = np.array([[red, red], [green, blue]], np.uint8)
    assert half_blocks(image, "24bit", max_columns=80, max_rows=24) == [
        "\x1b[38;2;255;0;0;48;2;0;255;0m▀\x1b[38;2;255;0;0;48;2;0;0;255m▀\x1b[0m"
    ]
    # xterm's cube: 16 + 36 r + 6 g + b with r, g, b from 0 to 5.
    assert half_blocks(image, "256", max_columns=80, max_rows=24) == [
        "\x1b[38;5;196;48;5;46m▀\x1b[38;5;196;48;5;21m▀\x1b[0m"
    ]


@pytest.mark.parametrize(("max_columns", "max_rows"), [(80, 19), (20, 40), (200, 200), (1, 1)])
def test_half_blocks_fit_and_are_never_enlarged(max_columns, max_rows):
    lines = half_blocks(np.zeros((168, 168, 3), np.uint8), "24bit", max_columns=max_columns, max_rows=max_rows)
    assert 1 <= len(lines) <= min(max_rows, 84)
    assert all(1 <= line.count("▀") <= min(max_columns, 168) for line in lines)


@pytest.mark.parametrize(
    ("is_a_tty", "environ", "expected"),
    [
        (True, {"TERM": "xterm-256color", "COLORTERM": "truecolor"}, "24bit"),
        (True, {"TERM": "xterm-256color"}, "256"),
        (True, {"TERM": "vt100"}, "none"),
        (True, {"TERM": "dumb", "COLORTERM": "truecolor"}, "none"),
        (True, {"TERM": "xterm-256color", "COLORTERM": "truecolor", "NO_COLOR": ""}, "none"),
        (False, {"TERM": "xterm-256color", "COLORTERM": "truecolor"}, "none"),
    ],
)
def test_colors_are_used_only_where_they_show(is_a_tty, environ, expected):
    assert colors_of(FakeTerminal(is_a_tty=is_a_tty), environ) == expected


# --- Sessions -------------------------------------------------------------------------------------


def test_play_in_a_terminal_with_arrow_keys(tmp_path):
    level = tmp_path / "level.txt"
    level.write_text(SOKOBAN_LEVEL)
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    command = [sys.executable, "-m", "vlm_envs", "play", "VLM/Sokoban-v0", "--level", str(level)]
    environ = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    environ.pop("NO_COLOR", None)
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=CHECKOUT, env=environ) as child:
        first = read_until(ours, "At least 6 actions to go.")
        assert "▀" in first
        assert SOKOBAN_GOAL in first
        assert "\x1b[38;2;" in first, "the picture is drawn in 24-bit colours"
        for number, action in enumerate(SOKOBAN_SOLUTION[:-1], start=1):
            os.write(ours, ARROWS[action])
            left = 6 - number
            shown = read_until(ours, f"At least {left} action{'s' if left > 1 else ''} to go.")
            assert SOKOBAN_GOAL not in shown, "the goal and the rules are shown once"
        os.write(ours, ARROWS[SOKOBAN_SOLUTION[-1]])
        read_until(ours, "Solved with 6 actions")
        os.write(ours, b"q")
        after = read_until(ours, "\x1b[?1049l").partition("\x1b[?1049l")[2]
        # What follows may have come in the same piece.
        assert "Solved with 6 actions" in after or read_until(ours, "Solved with 6 actions")
        assert child.wait(timeout=30) == 0
    assert termios.tcgetattr(theirs) == before, "the terminal is put back as it was"
    os.close(ours)
    os.close(theirs)


def test_a_question_is_answered_in_a_terminal():
    pytest.importorskip("pydantic", reason="needs the tools: pip install '.[tools]'")
    ours, theirs = pty.openpty()
    settings = ("side_px=600", "target_px=(20, 40)", "settings=street", "categories=attribute")
    command = [sys.executable, "-m", "vlm_envs", "play", "VLM/ZoomQA-v0", *(f"--set={each}" for each in settings)]
    environ = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    environ.pop("NO_COLOR", None)
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=CHECKOUT, env=environ) as child:
        first = read_until(ours, "q quit")
        assert "\x1b[38;2;" in first and "Answer a question about a picture" in first
        call = b"image_zoom_in_tool image=original_image bbox_2d="
        os.write(ours, call + b"[400, 400, 600, 600]\r")
        read_until(ours, "turn 1")
        os.write(ours, call + b"[600, 400, 400, 600]\r")
        read_until(ours, "x1 < x2")
        os.write(ours, b"a\r")
        read_until(ours, "turn 2")
        os.write(ours, b"q\r")
        assert child.wait(timeout=30) == 0
    os.close(ours)
    os.close(theirs)


def test_lines_are_typed_where_keys_would_move(tmp_path):
    level = tmp_path / "level.txt"
    level.write_text(SOKOBAN_LEVEL)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "vlm_envs", "play", "VLM/Sokoban-v0", "--level", str(level), "--typed"]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=CHECKOUT) as child:
        read_until(ours, "> ")
        os.write(ours, ", ".join(SOKOBAN_SOLUTION).encode() + b"\r")
        read_until(ours, "Solved with 6 actions")
        os.write(ours, b"q\r")  # Ctrl-D would be lost if it came before the prompt
        assert child.wait(timeout=30) == 0
    os.close(ours)
    os.close(theirs)
