#!/usr/bin/env bash
# An asynchronous OpenAI client that is used in one asyncio.run after another fails in every second one, despite retries.
#
# Library: openai 3.52.0, anthropic 2.12.0 (for comparison), Python 3.11.
# Guess:   a client created once and used in several calls of asyncio.run, as synchronous code does for batches of
#          requests, survives: the pooled connection belongs to a closed loop, which is an APIConnectionError at worst,
#          and max_retries (2 by default) tries again.
# Seen:    this is so for anthropic. openai raises a bare RuntimeError, "Event loop is closed", in the second call, which
#          is not an error of the package and is never retried; the third call succeeds, the fourth fails, and so on. The
#          number of retries and of parallel requests makes no difference. If the server does not keep connections alive,
#          every call succeeds, so a test against such a server does not show the fault.
# The script fails when this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check openai==3.52.0 anthropic==2.12.0 \
  2> "$folder/pip.log" || { cat "$folder/pip.log"; exit 1; }
"$folder/venv/bin/python" - <<'PY'
import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import anthropic
import openai

NUM_CALLS = 6
CHOICE = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "ok"}}
REPLIES = {
    "/v1/chat/completions": {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [CHOICE]},
    "/v1/messages": {
        "id": "1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "ok"}], "usage": {"input_tokens": 1, "output_tokens": 1},
    },
}


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """Says nothing of connections that the client has reset."""


def server(protocol):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = protocol

        def log_message(self, *arguments):
            pass

        def do_POST(self):
            self.rfile.read(int(self.headers["content-length"]))
            body = json.dumps(REPLIES[self.path]).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    made = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{made.server_port}"


MESSAGES = [{"role": "user", "content": "?"}]


def openai_request(url, **settings):
    client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", **settings)
    return lambda: client.chat.completions.create(model="m", messages=MESSAGES)


def anthropic_request(url, **settings):
    client = anthropic.AsyncAnthropic(base_url=url, api_key="none", **settings)
    return lambda: client.messages.create(model="m", max_tokens=8, messages=MESSAGES)


async def together(request, num):
    await asyncio.gather(*(request() for _ in range(num)))


def outcomes(request, num):
    found = []
    for _ in range(NUM_CALLS):
        try:
            asyncio.run(together(request, num))
            found.append("ok")
        except Exception as error:
            found.append(f"{type(error).__name__}: {error}")
    return found


kept, closed = server("HTTP/1.1"), server("HTTP/1.0")
FAULTS = {"openai": "RuntimeError: Event loop is closed", "anthropic": "APIConnectionError: Connection error."}
for name, make in (("openai", openai_request), ("anthropic", anthropic_request)):
    for num in (1, 3):
        for retries in (0, 2):
            found = outcomes(make(kept, max_retries=retries), num)
            print(f"{name}, {num} at a time, max_retries={retries}: {found}")
            heals = name == "anthropic" and retries > 0
            assert found == ["ok", "ok" if heals else FAULTS[name]] * (NUM_CALLS // 2), found
    found = outcomes(make(closed), 1)
    print(f"{name}, server without keep-alive: {found}")
    assert found == ["ok"] * NUM_CALLS, found
print(f"As described: openai {openai.__version__}, anthropic {anthropic.__version__}.")
PY
