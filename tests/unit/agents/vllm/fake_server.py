"""A server that says what vLLM's says, in a thread."""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import safetensors.torch

from agents.vllm.worker import WeightReceiver


class FakeServer(ThreadingHTTPServer):
    """Answers with two tokens and keeps what it was sent; `restart` loses its weights.

    A fault is a status for a path, a cut connection (0), or silence; a pause is between the bytes of the next response,
    a drip between those of every reply of a path. A request on a connection that was idle for longer than `idle_s` is
    met as one that comes while the server ends it: by nothing.
    """

    daemon_threads = True

    def __init__(self, end_of_turn_id):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.end_of_turn_id, self.weight_version, self.reports = end_of_turn_id, "default", None
        self.faults, self.bodies, self.unanswered, self.speaks = {}, [], [], threading.Event()
        self.answered = {"finish_reason": "stop", "logprobs": 2}
        self.restart_before, self.pauses, self.drips, self.idle_s = "", [], {}, 5.0
        self.config = {
            "logprobs_mode": "processed_logprobs",
            "max_model_len": 4096,
            "multimodal_config": {"mm_device_do_normalize": False},
        }
        self.restart()
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def restart(self):
        self.worker = type("Worker", (WeightReceiver,), {"reload_weights": self._reload})()
        self.weights, self.weight_version = None, "default"

    def _reload(self, *, weights_iterator=None, weights_path=None):
        if weights_path is not None:
            self.weights = safetensors.torch.load_file(f"{weights_path}/model.safetensors")
        else:
            self.weights = dict(weights_iterator)

    def answer(self, path, body):
        self.bodies.append((path, body))
        if path.startswith("/server_info"):
            return {"vllm_config": {"model_config": self.config}}
        if path == "/collective_rpc":
            method = getattr(self.worker, body["method"])
            method(*body.get("args", []), **body.get("kwargs", {}))
        elif path == "/update_weight_version":
            self.weight_version = body["new_version"]
        elif path == "/inference/v1/generate" and body:
            spans = [{"version": self.reports or self.weight_version, "start": 0, "end": 2}]
            ids = [301, self.end_of_turn_id]
            logprobs = {"content": [{"token_id": each, "logprob": -0.25} for each in ids[: self.answered["logprobs"]]]}
            choice = {"token_ids": ids, "logprobs": logprobs, "weight_versions": spans}
            return {"choices": [choice | {"finish_reason": self.answered["finish_reason"]}]}
        return {}

    def asked(self):
        return [body for path, body in self.bodies if path == "/inference/v1/generate" and body]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    idle_since = float("inf")

    def do_POST(self):
        if time.monotonic() - self.idle_since > self.server.idle_s:
            self.close_connection = True
            return
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        path = self.path.partition("?")[0]
        fault = self.server.faults.get(path)
        if path == self.server.restart_before:
            self.server.restart_before, fault = "", 0
            self.server.restart()
        if fault == "silence":
            self.server.unanswered.append(path)
            self.server.speaks.wait(120)
        if fault in (0, "silence"):
            self.close_connection = True
            return
        try:
            said = {"error": "so it is"} if fault else self.server.answer(self.path, body)
        except ValueError as error:
            fault, said = 500, {"error": str(error)}
        reply = json.dumps(said).encode()
        self.send_response(fault or 200)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        pause = self.server.pauses.pop() if self.server.pauses and body and path.endswith("/generate") else 0.0
        pause = self.server.drips.get(path, pause)
        with suppress(OSError):  # of who has given it up
            for byte in reply if pause else ():  # a drip
                self.wfile.write(bytes([byte]))
                time.sleep(pause)
        if not pause:
            self.wfile.write(reply)
        self.idle_since = time.monotonic()

    def do_GET(self):
        self.headers["Content-Length"] = "0"
        self.do_POST()

    def log_message(self, *_):
        pass
