"""A page of this machine's own browser that shows what is asked and takes what is answered.

The address holds a word that nobody else knows, and the server listens on the loopback interface only.
"""

from __future__ import annotations

import json
import secrets
import threading
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from agents.api.conversation import Picture
from vlm_envs.trajectory import Observation, observation_images, observation_words

_PAGE = Path(__file__).with_name("page.html")
_HOLD_S = 20.0
"""How long a page waits for the next turn in one request."""

_LONGEST_ANSWER = 1_000_000


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
