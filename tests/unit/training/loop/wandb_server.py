"""A W&B server on loopback: enough of it for wandb's own client to log in, start runs and upload what they log."""

from __future__ import annotations

import gzip
import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_ENTITY = {"id": "e", "name": "somebody"}
_VIEWER = {"id": "u", "entity": "somebody", "username": "somebody", "flags": "{}", "teams": {"edges": []}}


def environment(directory: Path, **more: str) -> dict[str, str]:
    """Returns an environment whose wandb keeps everything in a directory and knows no login but what is given."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    places = {f"WANDB_{what}_DIR": str(directory / what.lower()) for what in ("CONFIG", "CACHE", "DATA")}
    return {**inherited, "HOME": str(directory), "NETRC": str(directory / "netrc"), **places, **more}


class FakeWandb(ThreadingHTTPServer):
    """Serves one project's runs.

    Attributes:
        runs: What each start of a run sent: its id, names and configuration.
        history: Every row that was uploaded.
        is_lost: Whether connections are cut without an answer, as when a network goes away.
        refuses: Whether runs are refused.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.runs: list[dict[str, Any]] = []
        self.history: list[dict[str, Any]] = []
        self.is_lost = self.refuses = False

    def environment(self, directory: Path, **more: str) -> dict[str, str]:
        """Returns an environment in which wandb logs to this server."""
        base_url = f"http://127.0.0.1:{self.server_port}"
        return environment(directory, WANDB_BASE_URL=base_url, WANDB_API_KEY="a" * 40, **more)

    def __enter__(self) -> FakeWandb:
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FakeWandb

    def log_message(self, *_: object) -> None:
        """Keeps quiet."""

    def do_POST(self) -> None:
        """Answers what wandb asks."""
        body = self._body()
        if self.server.is_lost:
            self.close_connection = True
            return
        if self.path.endswith("/file_stream"):
            self._take_history(body)
            self._answer({})
        elif self.path == "/graphql":
            asked = json.loads(body)
            if asked["operationName"] == "UpsertBucket" and self.server.refuses:
                self._answer({"errors": [{"message": "permission denied"}]}, status=403)
            else:
                self._answer({"data": self._data(asked)})
        else:
            self._answer({})

    do_PUT = do_POST

    def _data(self, asked: dict[str, Any]) -> dict[str, Any]:
        name, variables = asked["operationName"], asked.get("variables", {})
        if name == "UpsertBucket":
            self.server.runs.append(variables)
            project = {"id": "p", "name": variables["project"], "entity": _ENTITY}
            named = {"id": "b", "name": variables["name"], "displayName": variables["displayName"]}
            bucket = {**named, "description": None, "config": "{}", "sweepName": None, "historyLineCount": 0}
            return {"upsertBucket": {"bucket": {**bucket, "project": project}, "inserted": True}}
        files = {"runID": "b", "uploadHeaders": [], "files": []}
        return {"viewer": _VIEWER, "serverInfo": {"features": []}, "createRunFiles": files}

    def _take_history(self, body: bytes) -> None:
        rows = json.loads(body).get("files", {}).get("wandb-history.jsonl", {}).get("content", [])
        self.server.history += (json.loads(row, parse_constant=str) for row in rows)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body

    def _answer(self, answer: dict[str, Any], status: int = 200) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
