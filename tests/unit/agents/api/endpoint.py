"""An endpoint on loopback that answers like a judge model, or fails in the way it is told to."""

import contextlib
import json
import socket
import struct
import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from agents.api.probe import QUESTION

YES = "<think>It fits.</think><answer>YES</answer>"


class FakeEndpoint(ThreadingHTTPServer):
    """Serves chat completions; `script` holds what to do with the next requests, then `answer` is asked.

    Probes of whether it answers are kept apart from them: `on_probe` says what is done with those.
    """

    daemon_threads = True
    request_queue_size = 256  # As many connections at once must not be put off
    # Closing must not wait for handlers that hang on purpose.
    block_on_close = False

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = lambda messages: YES
        self.script = deque()
        self.requests = []
        self.probes = []
        self.on_probe = reply("yes")
        self.on_request = lambda: None
        self.keys = []
        self.paths = []
        self.headers = []
        self.released = threading.Event()
        self.max_at_once = 0
        self._at_once = 0
        self._lock = threading.Lock()

    @property
    def base_url(self):
        return f"http://127.0.0.1:{self.server_port}/v1"

    def __enter__(self):
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *exception):
        self.released.set()
        self.shutdown()
        self.server_close()

    def next_action(self, request, key):
        if request.get("messages") == [{"role": "user", "content": QUESTION}]:
            self.probes.append(request)
            return self.on_probe
        with self._lock:
            self.requests.append(request)
            self.keys.append(key)
            self.on_request()
            scripted = self.script.popleft() if self.script else None
        return scripted or reply(self.answer(request.get("messages")))

    @contextlib.contextmanager
    def counted(self):
        with self._lock:
            self._at_once += 1
            self.max_at_once = max(self.max_at_once, self._at_once)
        try:
            yield
        finally:
            with self._lock:
                self._at_once -= 1

    def handle_error(self, request, client_address):
        """Clients that hang up are part of the tests."""


class Gathering(FakeEndpoint):
    """Answers when as many requests are under way as a barrier has parties, at this endpoint or another one's too.

    The waits count, not the clock: a request that finds too few neighbours is answered after a while all the same, and
    the barrier is broken.
    """

    def __init__(self, together, *, num_alone=0):
        super().__init__()
        self.together, self.num_alone = together, num_alone

    def next_action(self, request, key):
        action = super().next_action(request, key)
        with self._lock:
            self.num_alone -= 1
            if self.num_alone >= 0:
                return action

        def answer(handler):
            with contextlib.suppress(threading.BrokenBarrierError):
                self.together.wait(20.0)
            return action(handler)

        return answer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.counted():
            self.server.paths.append(self.path)
            self.server.headers.append(dict(self.headers))
            self.server.next_action(request, self.headers["Authorization"])(self)

    def log_message(self, *arguments):
        """Quiet."""

    def send(self, status, body, headers=None, length=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()


def completion(text, prompt_tokens=100, completion_tokens=10):
    return {
        "id": "1",
        "object": "chat.completion",
        "model": "small-2026-11-22",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens},
    }


def reply(text):
    return body_of(completion(text))


def body_of(content):
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return lambda handler: handler.send(200, body)


def status(code, message="busy", headers=None, error_code=None):
    body = json.dumps({"error": {"message": message, "code": error_code}}).encode()
    return lambda handler: handler.send(code, body, headers)


def hang(handler):
    handler.server.released.wait(30)
    handler.close_connection = True


def half_a_body(handler):
    body = json.dumps(completion(YES)).encode()
    handler.send(200, body[: len(body) // 2], length=len(body))
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)


def truncated_stream(handler):
    """A body in chunks, of which the last never comes."""
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    part = json.dumps(completion(YES)).encode()[:40]
    handler.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
    handler.wfile.flush()
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)


def stream_nobody_asked_for(handler):
    """Events in place of a body, and the connection closed among them."""
    handler.send_response(200)
    handler.send_header("Content-Type", "text/event-stream")
    handler.end_headers()
    handler.wfile.write(b'data: {"choices": [{"delta": {"content": "<answer>"}}]}\n\ndata: {"choi')
    handler.wfile.flush()
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)


def reset(handler):
    # Lingering for zero seconds sends a reset in place of an orderly end.
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()
    handler.close_connection = True


def no_answer(handler):
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)


def drip_body(handler):
    handler.send(200, b"", length=10**6)
    _drip(handler, b" ")


def drip_headers(handler):
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    _drip(handler, b"z")


def drip_refusal(handler):
    handler.send(500, b"", length=10**6)
    _drip(handler, b" ")


def endless_body(handler):
    handler.send(200, b"", length=10**9)
    with contextlib.suppress(OSError):
        while not handler.server.released.is_set():
            handler.wfile.write(b" " * 2**16)
    handler.close_connection = True


def _drip(handler, byte):
    with contextlib.suppress(OSError):
        while not handler.server.released.wait(0.02):
            handler.wfile.write(byte)
            handler.wfile.flush()
    handler.close_connection = True
