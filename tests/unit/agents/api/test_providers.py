"""Every provider through its official package, against a server on loopback that speaks its format, or fails to."""

import contextlib
import json
import logging
import traceback

import httpx2
import numpy as np
import pytest

from tests.unit.agents.api import endpoint as fake
from tests.unit.agents.api.asking import complete

pytest.importorskip("openai", reason="needs openai: pip install '.[api]'")
pytest.importorskip("anthropic", reason="needs anthropic: pip install '.[api]'")
pytest.importorskip("google.genai", reason="needs google-genai: pip install '.[api]'")

from agents.api.anthropic_messages import AnthropicMessages
from agents.api.client import ModelClient
from agents.api.conversation import Message, Picture, TokenCounts
from agents.api.endpoint_config import EndpointConfig
from agents.api.failures import EndpointError, PermanentError, TransientError
from agents.api.provider import Connection
from agents.api.transport import make_provider
from tests.unit.agents.api.conftest import KEY
from tests.unit.agents.api.wires import WIRES, Said
from vlm_envs.errors import ConfigError

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 5, 3), np.uint8)
PICTURE = Picture.of(PIXELS)
TURNS = (
    Message(role="system", parts=("You play.",)),
    Message(role="user", parts=(PICTURE, "Look.")),
    Message(role="assistant", parts=("Right.",)),
    Message(role="user", parts=(PICTURE, PICTURE, "And now?")),
)


@pytest.fixture(params=sorted(WIRES))
def wire(request):
    return WIRES[request.param]


@pytest.fixture
def model(wire, endpoint, clock):
    """Makes clients of the fake server in a provider's format; keyword arguments change the configuration."""
    with contextlib.ExitStack() as stack:

        def make(**changes):
            settings = {
                "model": "judge",
                "provider": wire.provider,
                "base_url": f"http://127.0.0.1:{endpoint.server_port}{wire.version}",
                "api_key_variable": "JUDGE_KEY",
                "temperature": None,
                "max_attempts": 3,
                **changes,
            }
            return stack.enter_context(ModelClient(EndpointConfig(**settings), clock=clock))

        yield make


def says(endpoint, wire, *said):
    endpoint.script.extend(fake.body_of(wire.body(each)) for each in said)


class TestReplies:
    def test_everything_of_a_reply_is_read(self, wire, endpoint, model):
        says(endpoint, wire, Said(thoughts="Up is free."))
        completion = complete(model(), TURNS)
        assert (completion.text, completion.stop_reason) == ("<answer>Up</answer>", "stop")
        assert completion.model == "exact-name"
        assert completion.thoughts == "Up is free."
        assert completion.tokens == TokenCounts(prompt=100, cached=40, completion=30, reasoning=20)
        assert endpoint.paths == [wire.path]

    @pytest.mark.parametrize("stop", ["length", "content_filter"])
    def test_why_it_ended(self, stop, wire, endpoint, model):
        says(endpoint, wire, Said(stop=stop, text="I can"))
        assert complete(model(), TURNS).stop_reason == stop

    def test_an_empty_text_is_an_answer(self, wire, endpoint, model):
        says(endpoint, wire, Said(text=""))
        assert complete(model(), TURNS).text == ""

    def test_the_pictures_of_every_turn_are_sent_pixel_by_pixel(self, wire, endpoint, model):
        says(endpoint, wire, Said())
        complete(model(), TURNS)
        written = json.dumps(endpoint.requests[0]).replace("-", "+").replace("_", "/")  # Of either base64
        assert written.count(PICTURE.base64) == 3
        assert written.index("Look.") < written.index("Right.") < written.index("And now?")
        assert "You play." in written

    def test_half_a_surrogate_pair_never_keeps_a_request_from_being_sent(self, wire, endpoint, model):
        says(endpoint, wire, Said(text="up \udc80"), Said())
        client = model()
        said = complete(client, (Message(role="system", parts=("\ud800 you",)), *TURNS[1:])).text
        past = Message(role="assistant", parts=(said,))
        assert (
            complete(client, (*TURNS, past, Message(role="user", parts=("and\ud83d?",)))).text == "<answer>Up</answer>"
        )
        assert "and??" in json.dumps(endpoint.requests[-1])

    def test_sampling_is_sent_where_it_is_asked_for(self, wire, endpoint, model):
        says(endpoint, wire, Said(), Said())
        complete(model(temperature=0.25, top_p=0.5, max_tokens=77), TURNS)
        complete(model(max_tokens=77), TURNS)
        asked, plain = map(json.dumps, endpoint.requests)
        assert "0.25" in asked and "0.5" in asked and "77" in asked
        assert "emperature" not in plain and "op_p" not in plain and "opP" not in plain


class TestFailures:
    @pytest.mark.parametrize(
        "failure",
        [
            fake.status(408),
            fake.status(409),
            fake.status(429),
            fake.status(429, headers={"Retry-After": "7"}),
            fake.status(500),
            fake.status(503),
            fake.status(529),
            fake.half_a_body,
            fake.reset,
            fake.no_answer,
            fake.truncated_stream,
            fake.stream_nobody_asked_for,
            fake.body_of(b"<html>busy</html>"),
            fake.body_of(b"{"),
            fake.body_of(b"[]"),
            fake.body_of(b"null"),
            fake.body_of({"error": {"message": "no"}}),
        ],
        ids=lambda failure: getattr(failure, "__name__", ""),
    )
    def test_what_may_pass_is_tried_again(self, failure, wire, endpoint, model):
        endpoint.script.append(failure)
        says(endpoint, wire, Said())
        client = model()
        assert complete(client, TURNS).text == "<answer>Up</answer>"
        assert (client.usage.num_requests, client.usage.num_failed_requests) == (2, 1)

    def test_an_empty_choice_may_pass(self, wire, endpoint, model):
        for nothing in wire.nothing:
            endpoint.script.append(fake.body_of(wire.body(Said()) | nothing))
        says(endpoint, wire, Said())
        assert complete(model(), TURNS).text == "<answer>Up</answer>"
        assert len(endpoint.requests) == 1 + len(wire.nothing)

    def test_what_an_unreadable_reply_cost_is_told(self, wire, endpoint, model):
        endpoint.script.append(fake.body_of(wire.body(Said()) | wire.nothing[0]))
        with pytest.raises(TransientError) as caught:
            complete(model(max_attempts=1), TURNS)
        assert caught.value.tokens == TokenCounts(prompt=100, cached=40, completion=30, reasoning=20)

    def test_it_waits_as_long_as_it_is_asked_to(self, wire, endpoint, model, clock):
        endpoint.script.append(fake.status(429, headers={"Retry-After": "17"}))
        says(endpoint, wire, Said())
        complete(model(), TURNS)
        assert max(clock.slept) == pytest.approx(17)

    @pytest.mark.parametrize("code", [400, 401, 403, 404, 413, 422])
    def test_what_will_not_pass_is_asked_once(self, code, wire, endpoint, model):
        endpoint.script.append(fake.status(code, message="wrong"))
        with pytest.raises(PermanentError, match=str(code)):
            complete(model(), TURNS)
        assert len(endpoint.requests) == 1

    @pytest.mark.parametrize("failure", [fake.hang, fake.drip_body, fake.drip_headers])
    def test_a_reply_has_to_be_whole_in_time(self, failure, wire, endpoint, model):
        endpoint.script.append(failure)
        with pytest.raises(TransientError, match="no whole reply"):
            complete(model(max_attempts=1, timeout_s=0.2), TURNS)

    def test_an_endless_reply_is_broken_off(self, wire, endpoint, model):
        endpoint.script.append(fake.endless_body)
        with pytest.raises(EndpointError):
            complete(model(max_attempts=1, timeout_s=30), TURNS)

    def test_nobody_at_the_address(self, wire, endpoint, model):
        client = model(max_attempts=2)
        endpoint.shutdown()
        endpoint.server_close()
        with pytest.raises(TransientError, match=r"no connection|no readable reply"):
            complete(client, TURNS)


class TestKeys:
    def test_the_key_is_sent_and_never_told(self, wire, endpoint, model, caplog, capfd):
        caplog.set_level(logging.DEBUG)
        endpoint.script.extend([fake.status(500, message=f"key {KEY} is busy")] * 2)
        endpoint.script.append(fake.status(401, message=f"wrong key {KEY}"))
        client = model()
        with pytest.raises(PermanentError) as caught:
            complete(client, TURNS)
        assert KEY in json.dumps(endpoint.headers[0])
        told = [str(caught.value), repr(client), repr(client.config), caplog.text, *capfd.readouterr()]
        assert KEY not in "".join(told) and "wrong key …" in told[0]

    def test_no_answer_and_no_traceback_tells_it(self, wire, endpoint, model):
        told = [
            fake.body_of({"error": {"message": f"{KEY} is over its limit"}}),  # With a status of success
            fake.status(400, message="x" * 150 + f" key={KEY} " + "y" * 50),
            fake.status(400, message=f"key={KEY[2:]}"),
            fake.status(400, message=f"key={KEY[3:-1]}"),
            *(fake.status(400, message="x" * length + KEY) for length in range(170, 200, 3)),  # Cut off in its middle
        ]
        client = model(max_attempts=1)
        for each in told:
            endpoint.script.append(each)
            with pytest.raises(EndpointError) as caught:
                complete(client, TURNS)
            text = "".join(traceback.format_exception(caught.value))
            assert not any(KEY[start : start + 8] in text for start in range(len(KEY) - 7))

    @pytest.mark.parametrize("mask", ["***", "...", "…", "•" * 9])
    def test_a_masked_key_is_no_part_of_a_reason(self, mask, wire, endpoint, model):
        told = (f"{KEY[:8]}{mask}{KEY[-4:]} is wrong...", f"{KEY[:3]}{mask}{KEY[-4:]} is wrong...")
        endpoint.script.extend(fake.status(401, message=each) for each in told)
        client = model()
        for _ in told:
            with pytest.raises(PermanentError, match=r"[ ']… is wrong\.\.\."):
                complete(client, TURNS)

    def test_no_redirect_is_followed_with_the_key(self, wire, endpoint, model):
        with fake.FakeEndpoint() as elsewhere:
            there = f"{elsewhere.base_url}/elsewhere"
            endpoint.script.append(fake.status(307, message="moved", headers={"Location": there}))
            with pytest.raises(PermanentError, match="HTTP 307: the address redirects to 127"):
                complete(model(), TURNS)
        assert not elsewhere.requests and len(endpoint.requests) == 1

    def test_no_key_is_an_error_before_any_request(self, wire, endpoint, model):
        with pytest.raises(ConfigError, match="NO_SUCH_KEY"):
            model(api_key_variable="NO_SUCH_KEY")


class TestLimits:
    def test_too_many_pictures_are_an_error_before_any_request(self, wire, endpoint, model):
        client = model()
        most = client._endpoint.provider.limits.max_pictures
        if most is None:
            pytest.skip("a server of one's own has limits of its own")
        with pytest.raises(PermanentError, match="last_images"):
            complete(client, [Message(role="user", parts=(PICTURE,) * (most + 1))])
        assert not endpoint.requests

    @pytest.mark.parametrize(
        ("provider", "num_pictures", "num_bytes", "told"),
        [
            ("openai", 500, 1000, ""),
            ("openai", 501, 1000, "at most 500: send fewer with a history policy"),
            ("openai-chat", 2, 26 * 10**6, "52000000 bytes of images in a request; at most 50000000"),
            ("anthropic", 100, 1000, ""),
            ("anthropic", 101, 1000, "at most 100: send fewer"),
            ("anthropic", 1, 5 * 2**20 + 4, "5242884 bytes; at most 5242880: "),
            ("google", 1, 7 * 10**6 + 4, "at most 7000000: "),
            ("google", 3, 7 * 10**6, "21000000 bytes of images in a request; at most 19000000"),
            ("compatible", 999, 1000, ""),
        ],
    )
    def test_what_a_provider_takes_as_it_is_sent(self, provider, num_pictures, num_bytes, told):
        """Bytes are those of the base64 text, a third more than the file's."""
        limits = make_provider(provider, connection()).limits
        picture = Picture(png=bytes(num_bytes // 4 * 3), width=9, height=9)
        fault = limits.fault([Message(role="user", parts=(picture,) * num_pictures)])
        assert told in fault and bool(told) == bool(fault)

    def test_large_pictures_among_many(self):
        limits = AnthropicMessages.limits
        large = Picture(png=b"", width=3000, height=10)
        assert limits.fault([Message(role="user", parts=(large,) * 20)]) == ""
        assert "among 21 images" in limits.fault([Message(role="user", parts=(large,) * 21)])
        assert "at most 8000" in limits.fault([Message(role="user", parts=(Picture(png=b"", width=9, height=8001),))])


def connection():
    return Connection(api_key="k", base_url="http://127.0.0.1:9", timeout_s=1.0, http=httpx2.AsyncClient())


def test_reasoning_is_asked_for_as_each_provider_has_it(endpoint, clock):

    def asked(provider, reasoning):
        config = EndpointConfig(model="m", provider=provider, max_tokens=4096, reasoning=reasoning)
        return make_provider(provider, connection()).request(TURNS, config)

    assert asked("openai", "low")["reasoning"] == {"effort": "low", "summary": "auto"}
    assert asked("openai-chat", "low")["reasoning_effort"] == "low"
    assert asked("anthropic", "2048")["thinking"] == {"type": "enabled", "budget_tokens": 2048}
    assert asked("anthropic", "low")["output_config"] == {"effort": "low"}
    assert asked("google", "512")["config"]["thinking_config"] == {"include_thoughts": True, "thinking_budget": 512}
    assert asked("google", "low")["config"]["thinking_config"]["thinking_level"] == "low"
    for provider, wrong in (("anthropic", "1"), ("anthropic", "4096"), ("anthropic", "much"), ("google", "much")):
        with pytest.raises(ConfigError, match="reasoning"):
            asked(provider, wrong)
