#!/usr/bin/env bash
# A stream that ends early is a finished reply to the OpenAI and Anthropic packages; one cut by max_tokens is an error.
#
# Libraries: openai 3.52.0, anthropic 2.12.0, their streaming helpers, against a local server.
# Guess:     a body that ends without a finish reason and `[DONE]` (OpenAI) or `message_stop` (Anthropic) raises, as a
#            broken connection does; a reply with finish_reason "length" is returned with its partial text, as it is
#            without streaming.
# Seen:      both final replies have the partial text, and None as finish_reason or stop_reason, without an error;
#            get_final_completion() raises LengthFinishReasonError for "length", though no response format was asked for.
# The script fails when this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check openai==3.52.0 anthropic==2.12.0
"$folder/venv/bin/python" - <<'PY'
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import anthropic
import openai

TEXT = "half a sent"


def chunk(delta, finish_reason=None):
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    body = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return f"data: {json.dumps(body)}\n\n"


def event(kind, **fields):
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n"


START = chunk({"role": "assistant", "content": TEXT})
MESSAGE = {
    "id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None,
    "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
}
STREAMS = {
    "early": START,
    "limit": START + chunk({}, "length") + "data: [DONE]\n\n",
    "anthropic": event("message_start", message=MESSAGE)
    + event("content_block_start", index=0, content_block={"type": "text", "text": ""})
    + event("content_block_delta", index=0, delta={"type": "text_delta", "text": TEXT}),
}


class Server(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        body = STREAMS[asked["model"]].encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"
messages = [{"role": "user", "content": "Go on."}]
chat = openai.OpenAI(api_key="none", base_url=f"{url}/v1", max_retries=0).chat.completions
with chat.stream(model="early", messages=messages) as stream:
    choice = stream.get_final_completion().choices[0]
seen = {"openai, early": (choice.message.content, choice.finish_reason)}
try:
    with chat.stream(model="limit", messages=messages) as stream:
        seen["openai, limit"] = stream.get_final_completion().choices[0].message.content
except openai.LengthFinishReasonError:
    seen["openai, limit"] = "LengthFinishReasonError"
client = anthropic.Anthropic(api_key="none", base_url=url, max_retries=0)
with client.messages.stream(model="anthropic", max_tokens=9, messages=messages) as stream:
    final = stream.get_final_message()
seen["anthropic, early"] = (final.content[0].text, final.stop_reason)
for name, what in seen.items():
    print(f"{name}: {what}")
expected = {"openai, early": (TEXT, None), "openai, limit": "LengthFinishReasonError", "anthropic, early": (TEXT, None)}
assert seen == expected, "the packages now treat the ends of streams differently"
PY
