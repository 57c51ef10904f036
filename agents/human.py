"""A person as an agent, who answers at the terminal or in a page of the browser.

The page's address holds a random word, and its server listens on the loopback interface only.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
import threading
import webbrowser
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from agents.agent import Response
from agents.api.conversation import Picture
from vlm_envs.cli.terminal import Colors, colors_of, half_blocks, wrapped
from vlm_envs.trajectory import Observation, observation_images, observation_words
from vlm_envs.validation import require_flag
from vlm_envs.vector.vector_world import VectorWorld
from vlm_envs.world import World

_PAGE = Path(__file__).with_name("human_page.html")
_HOLD_S = 20.0
"""How long a page waits for the next turn in one request."""

_LONGEST_ANSWER = 1_000_000

_SPARE_ROWS = 6
"""Rows of a terminal that a picture leaves to the words around it."""


class HumanAgent:
    """Asks whoever sits at the terminal, one episode after the other; `python -m vlm_envs play` has keys, too.

    What is typed without tags is taken for this turn's actions, and written in the format that the world expects.

    Args:
        window: Whether to ask in a window of the browser, where pictures are shown pixel by pixel, and not in the
            terminal.
    """

    policy_version = -1
    _worlds: VectorWorld | None = None

    def __init__(self, *, window: bool = False) -> None:
        self.window = Window() if require_flag("window", window) else None

    @property
    def sees_pictures(self) -> bool:
        """Whether pictures are shown, and not only their sizes."""
        return self.window is not None or colors_of(sys.stdout, os.environ) != "none"

    def start(self, worlds: VectorWorld) -> None:
        """Takes hold of the worlds, in whose formats it writes."""
        self._worlds = worlds

    def respond(self, rows: Sequence[int], observations: Sequence[Observation]) -> list[Response]:
        """Returns what was typed for each row.

        Raises:
            EOFError: If the input has ended.
        """
        assert self._worlds is not None, "start() comes before respond()"
        typed = {
            row: self._ask(f"episode {row}" if self._worlds.num_envs > 1 else "", observation)
            for row, observation in zip(rows, observations, strict=True)
        }
        texts = self._worlds.apply({row: partial(_written, text) for row, text in typed.items()})
        return [Response(text=texts[row]) for row in rows]

    def close(self) -> None:
        """Closes the window, if there is one."""
        if self.window is not None:
            self.window.close()

    def _ask(self, which: str, observation: Observation) -> str:
        if self.window is not None:
            return self.window.ask(observation, f"Your turn{which and f', {which}'}")
        print(*observation_lines(observation, colors_of(sys.stdout, os.environ)), sep="\n")
        return input(f"{which}> ")


def _written(typed: str, world: World[Any, Any]) -> str:
    """Returns a whole response that says what was typed, in the format that a world expects now."""
    expected = world.turn_format
    if "<" in typed:
        return typed
    return expected.write(dict.fromkeys(expected.sections, "") | {expected.action_sections[0]: typed})


@dataclass(frozen=True)
class _Turn:
    number: int
    title: str
    observation: Observation


class Window:
    """A window that is open until it is closed from here.

    Args:
        open_url: What shows an address to the person; the system's browser by default.

    Attributes:
        url: Where it is.
    """

    def __init__(self, open_url: Callable[[str], object] = webbrowser.open) -> None:
        self._turn: _Turn | None = None
        self._answer: str | None = None
        self._changed = threading.Condition()
        word = secrets.token_urlsafe(16)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self, word))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/{word}/"
        threading.Thread(target=self._server.serve_forever, name="window", daemon=True).start()
        print(f"Play in your browser: {self.url}", flush=True)
        open_url(self.url)

    def ask(self, observation: Observation, title: str) -> str:
        """Shows an observation and returns what is answered; Ctrl-C at the terminal interrupts the wait."""
        with self._changed:
            number = 1 + (0 if self._turn is None else self._turn.number)
            self._turn, self._answer = _Turn(number, title, observation), None
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._answer is not None)
        return self._answer or ""

    def close(self) -> None:
        """Ends it; an open page says so."""
        self._server.shutdown()
        self._server.server_close()

    def turn_after(self, number: int) -> dict[str, object] | None:
        """Returns the turn that waits for an answer as JSON; None if there is none within a while."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_waiting(number), timeout=_HOLD_S)
            turn = self._turn
            if turn is None or not self._is_waiting(number):
                return None
        return {
            "number": turn.number,
            "title": turn.title,
            "text": observation_words(turn.observation),
            "pictures": [Picture.of(pixels).data_uri for pixels in observation_images(turn.observation)],
        }

    def answer(self, number: int, text: str) -> None:
        """Takes an answer; one to an earlier turn, of another tab, is passed over."""
        with self._changed:
            if self._is_waiting(number - 1) and self._turn is not None and self._turn.number == number:
                self._answer = text
                self._changed.notify_all()

    def _is_waiting(self, number: int) -> bool:
        return self._turn is not None and self._turn.number > number and self._answer is None


def _handler(window: Window, word: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, number = self._asked()
            if path == "":
                return self._send(_PAGE.read_bytes(), "text/html; charset=utf-8")
            if path != "next":
                return self.send_error(HTTPStatus.NOT_FOUND)
            turn = window.turn_after(number)
            if turn is None:
                return self._send(b"", "text/plain", HTTPStatus.NO_CONTENT)
            return self._send(json.dumps(turn).encode("ascii"), "application/json")

        def do_POST(self) -> None:
            path, number = self._asked()
            length = int(self.headers.get("Content-Length") or 0)
            if path != "answer" or not 0 <= length <= _LONGEST_ANSWER:
                return self.send_error(HTTPStatus.NOT_FOUND)
            window.answer(number, self.rfile.read(length).decode("utf-8", errors="replace"))
            return self._send(b"", "text/plain", HTTPStatus.NO_CONTENT)

        def _asked(self) -> tuple[str | None, int]:
            """Returns what is asked for below the secret word, None without it, and the turn's number."""
            address = urlsplit(self.path)
            numbers = [value for values in parse_qs(address.query).values() for value in values if value.isdecimal()]
            begins = f"/{word}/"
            path = address.path.removeprefix(begins) if address.path.startswith(begins) else None
            return path, int(numbers[0]) if numbers else 0

        def _send(self, content: bytes, kind: str, status: HTTPStatus = HTTPStatus.OK) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing: the terminal belongs to the player."""

    return Handler


def observation_lines(observation: Observation, colors: Colors) -> list[str]:
    """Returns an observation's pictures and text; of a picture only its size where there are no colours."""
    size = shutil.get_terminal_size()
    max_rows = max(4, size.lines - _SPARE_ROWS)
    lines: list[str] = []
    for picture in observation_images(observation):
        if colors == "none":
            lines.append(f"[picture of {picture.shape[1]} x {picture.shape[0]} pixels]")
        else:
            lines += half_blocks(picture, colors, max_columns=size.columns, max_rows=max_rows)
    return [*lines, *text_lines(observation_words(observation))]


def text_lines(text: str) -> list[str]:
    """Returns a text in printable lines, broken between words where a terminal is too narrow.

    Args:
        text: Anything, such as what a model wrote; characters that would steer a terminal are written as escapes.
    """
    return wrapped(map(_printable, text.split("\n")), sys.stdout)


def _printable(line: str) -> str:
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in line)
