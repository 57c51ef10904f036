"""What a server says of an error is shown, whatever the JSON around it, by every provider."""

import json

import pytest

from tests.unit.agents.api import endpoint as fake
from tests.unit.agents.api.asking import complete

pytest.importorskip("openai", reason="needs openai: pip install '.[api]'")
pytest.importorskip("anthropic", reason="needs anthropic: pip install '.[api]'")
pytest.importorskip("google.genai", reason="needs google-genai: pip install '.[api]'")

from hypothesis import given, settings
from hypothesis import strategies as st

from agents.api.client import ModelClient
from agents.api.conversation import Message
from agents.api.endpoint_config import EndpointConfig
from agents.api.failures import PermanentError, TransientError, read_error
from tests.unit.agents.api.wires import WIRES

QUESTION = (Message(role="user", parts=("Go.",)),)
SAID = "this model reads no tea leaves"
SHAPES = {
    "LM Studio": {"error": SAID},
    "FastAPI": {"detail": SAID},
    "FastAPI, invalid": {"detail": [{"type": "missing", "loc": ["body", "model"], "msg": SAID}]},
    "Gemini's compatible endpoint": [{"error": {"code": 400, "message": SAID, "status": "INVALID_ARGUMENT"}}],
    "a message": {"message": SAID},
    "vLLM before": {"object": "error", "message": SAID, "type": "BadRequestError", "param": None, "code": 400},
    "OpenAI": {"error": {"message": SAID, "type": "invalid_request_error", "code": None}},
    "Anthropic": {"type": "error", "error": {"type": "invalid_request_error", "message": SAID}, "request_id": "r"},
    "a nested detail": {"detail": {"error": {"message": SAID}}},
    "errors": {"errors": [{"message": SAID}]},
    "OpenRouter": {
        "error": {
            "message": "Provider returned error",
            "code": 400,
            "metadata": {"raw": json.dumps({"error": {"message": SAID}}), "provider_name": "P"},
        }
    },
    "a gateway": {"error": {"message": json.dumps({"error": {"message": SAID}})}},
    "text": SAID,
    "a page": f"<html><body>{SAID}</body></html>",
    "an unknown shape": {"reason": {"why": SAID}},
}


@pytest.fixture(params=sorted(WIRES))
def client(request, endpoint, clock):
    wire = WIRES[request.param]
    url = f"http://127.0.0.1:{endpoint.server_port}{wire.version}"
    config = EndpointConfig(
        provider=wire.provider,
        model="judge",
        base_url=url,
        api_key_variable="JUDGE_KEY",
        temperature=None,
        max_attempts=1,
    )
    with ModelClient(config, clock=clock) as made:
        yield made


def says(status, body):
    content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return lambda handler: handler.send(status, content)


@pytest.mark.parametrize("body", SHAPES.values(), ids=SHAPES)
def test_a_refusal_shows_what_the_server_says(body, endpoint, client):
    endpoint.script.append(says(400, body))
    with pytest.raises(PermanentError) as caught:
        complete(client, QUESTION)
    told = str(caught.value)
    assert told.startswith("HTTP 400: ") and SAID in told and "None" not in told
    if body not in (SHAPES["a page"], SHAPES["an unknown shape"]):
        assert "{" not in told and "<" not in told


@pytest.mark.parametrize("body", [SHAPES["OpenAI"], SHAPES["Anthropic"], SHAPES["LM Studio"]])
def test_an_overload_shows_it_too(body, endpoint, client):
    endpoint.script.append(says(529, body))
    with pytest.raises(TransientError, match=f"^HTTP 529: {SAID}$"):
        complete(client, QUESTION)


def test_a_dropped_connection_is_named(endpoint, client):
    endpoint.script.append(fake.reset)
    with pytest.raises(TransientError, match=r"no connection: \w+"):
        complete(client, QUESTION)


def test_where_a_field_is_wrong_is_part_of_it():
    assert read_error(SHAPES["FastAPI, invalid"]).message == f"body.model: {SAID}"


def test_the_codes_of_a_wrapped_error_come_first():
    raw = json.dumps({"error": {"code": "inner", "message": SAID}})
    body = {"error": {"message": "Provider returned error", "type": "outer", "metadata": {"raw": raw}}}
    assert read_error(body).codes == ("inner", "outer")


def test_codes_are_found_inside_and_outside():
    body = {"code": "outer", "error": {"code": "inner", "type": "kind"}}
    assert read_error(body).codes == ("inner", "kind", "outer")


TEXTS = st.text(max_size=20) | st.sampled_from(['{"error": "x"}', '{"message": {}}', "[[", "[1]"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.sampled_from(["error", "message", "metadata", "raw", "loc", "msg", "code"]), inner)
    ),
    max_leaves=10,
)


@settings(max_examples=50)
@given(JSON, TEXTS)
def test_no_body_raises(body, text):
    said = read_error(body, text)
    assert isinstance(said.message, str) and all(isinstance(code, str) for code in said.codes)
