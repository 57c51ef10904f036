"""A browser page on which a person plays.

Its address contains a random word, and its server listens only on the loopback interface.
"""

from __future__ import annotations

import base64
import io
import json
import secrets
import threading
import webbrowser
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt
from PIL import Image

_PAGE = Path(__file__).with_name("player_page.html")
_HOLD_S = 20.0
"""Maximum time that a request waits for the next turn, in seconds."""
_LONGEST_ANSWER = 1_000_000
_NO_KEYS: Mapping[str, str] = MappingProxyType({})


class PlayerPage:
    """A page that stays open until `close` is called.

    Args:
        open_url: Opens an address for the person; the system's browser by default.

    Attributes:
        url: Its address.
    """

    def __init__(self, open_url: Callable[[str], object] = webbrowser.open) -> None:
        self._turn: dict[str, Any] = {}
        self._number = 0
        self._answer: str | None = None
        self._changed = threading.Condition()
        word = secrets.token_urlsafe(16)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self, word))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/{word}/"
        threading.Thread(target=self._server.serve_forever, name="player page", daemon=True).start()
        print(f"Play in your browser: {self.url}", flush=True)
        open_url(self.url)

    def ask(
        self, title: str, text: str, images: Iterable[npt.NDArray[np.uint8]], keys: Mapping[str, str] = _NO_KEYS
    ) -> str:
        """Shows a turn and returns the answer; Ctrl-C in the terminal interrupts the wait.

        Args:
            title: Heading.
            text: Text below the images.
            images: uint8[H, W, 3].
            keys: Answer of each key, by its name in browsers. If empty, the answer is typed.
        """
        shown = {"title": title, "text": text, "images": [_data_uri(image) for image in images], "keys": dict(keys)}
        with self._changed:
            self._number += 1
            self._turn, self._answer = {**shown, "number": self._number}, None
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._answer is not None)
        return self._answer or ""

    def close(self) -> None:
        """Stops the server; an open page reports this."""
        self._server.shutdown()
        self._server.server_close()

    def turn_after(self, number: int) -> dict[str, Any] | None:
        """Returns the turn that waits for an answer, for JSON; None if there is none within `_HOLD_S`."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_waiting(number), timeout=_HOLD_S)
            return self._turn if self._is_waiting(number) else None

    def answer(self, number: int, text: str) -> None:
        """Accepts an answer; one to an earlier turn, from another tab, is ignored."""
        with self._changed:
            if self._answer is None and number == self._number:
                self._answer = text
                self._changed.notify_all()

    def _is_waiting(self, number: int) -> bool:
        return self._number > number and self._answer is None


def _data_uri(image: npt.NDArray[np.uint8]) -> str:
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "PNG")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"


def _handler(page: PlayerPage, word: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, number = self._asked()
            if path == "":
                return self._send(_PAGE.read_bytes(), "text/html; charset=utf-8")
            if path != "next":
                return self.send_error(HTTPStatus.NOT_FOUND)
            turn = page.turn_after(number)
            if turn is None:
                return self._send(b"", "text/plain", HTTPStatus.NO_CONTENT)
            return self._send(json.dumps(turn).encode("ascii"), "application/json")

        def do_POST(self) -> None:
            path, number = self._asked()
            length = int(self.headers.get("Content-Length") or 0)
            if path != "answer" or not 0 <= length <= _LONGEST_ANSWER:
                return self.send_error(HTTPStatus.NOT_FOUND)
            page.answer(number, self.rfile.read(length).decode("utf-8", errors="replace"))
            return self._send(b"", "text/plain", HTTPStatus.NO_CONTENT)

        def _asked(self) -> tuple[str | None, int]:
            """Returns the path after the secret word, None without it, and the turn's number."""
            address = urlsplit(self.path)
            number = address.query.rpartition("=")[2]
            before, _, path = address.path.rpartition("/")
            return path if before == f"/{word}" else None, int(number) if number.isdecimal() else 0

        def _send(self, content: bytes, kind: str, status: HTTPStatus = HTTPStatus.OK) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Prints nothing, since the player uses the terminal."""

    return Handler
