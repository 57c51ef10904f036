"""A judge model that takes its time: `python -m benchmarks.timeline.endpoint MS` prints its port and serves."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

_REPLY = {
    "id": "late",
    "object": "chat.completion",
    "created": 0,
    "model": "late",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "<answer>YES</answer>"}, "finish_reason": "stop"}
    ],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}


@contextmanager
def late_endpoint(answer_ms: float) -> Iterator[str]:
    """Gives the address of a model that says yes to everything after so many milliseconds, in a process of its own."""
    with subprocess.Popen(
        [sys.executable, "-m", __name__, str(answer_ms)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    ) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        finally:
            process.terminate()


def _serve(answer_s: float) -> None:
    class Late(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            time.sleep(answer_s)
            body = json.dumps(_REPLY).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Late)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    _serve(float(sys.argv[1]) / 1000)
