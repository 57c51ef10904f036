"""Whether a model behind an endpoint answers is found out by one short question, and why it does not is told."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time

import pytest

pytest.importorskip("openai", reason="needs openai: pip install '.[api]'")

from agents.api import probe
from agents.api.endpoint_config import EndpointConfig
from agents.api.probe import faults_of
from tests.unit.agents.api.endpoint import FakeEndpoint, body_of, hang, reply, status


def at(server: FakeEndpoint, **changes) -> EndpointConfig:
    return EndpointConfig(model="small", base_url=server.base_url, api_key_variable="JUDGE_KEY", **changes)


def closed_port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return unused.getsockname()[1]


def test_one_that_answers_is_asked_once_and_little(endpoint):
    asked = at(endpoint, temperature=0.3, max_tokens=4000)
    assert faults_of([asked, at(endpoint, temperature=0.3, max_parallel=2)]) == ["", ""]
    (request,) = endpoint.probes
    assert (request["temperature"], request["max_tokens"], request["model"]) == (0.3, 16, "small")
    assert endpoint.requests == []
    assert faults_of([]) == []


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (status(401, "wrong key"), "HTTP 401: .*wrong key.*JUDGE_KEY"),
        (status(403, "not for you"), "HTTP 403: .*JUDGE_KEY"),
        (status(404, "no such model"), "HTTP 404: .*no such model. Does it serve a model called 'small'.*/v1"),
        (status(429, "pay first", error_code="insufficient_quota"), "HTTP 429: .*pay first"),
        (status(503, "loading"), "HTTP 503: .*loading. See its log"),
        (body_of(b"<html>Welcome</html>"), "no .*reply"),
        (reply(""), ""),
        (status(429, "busy"), ""),
    ],
)
def test_what_it_says_tells_what_may_help(endpoint, said, told):
    import re

    endpoint.on_probe = said
    (fault,) = faults_of([at(endpoint, first_wait_s=0.01)])
    assert re.search(told, fault) if told else fault == ""


def test_silence_and_closed_doors_are_told_soon_and_side_by_side(endpoint, monkeypatch):
    monkeypatch.setattr(probe, "MAX_WAIT_S", 0.3)
    endpoint.on_probe = hang
    nobody = EndpointConfig(model="small", base_url=f"http://127.0.0.1:{closed_port()}/v1")
    began = time.monotonic()
    silent, closed = faults_of([at(endpoint, timeout_s=600.0, max_attempts=50), nobody])
    assert "no whole reply within 0.3 s. Is it running" in silent and "no connection" in closed
    assert time.monotonic() - began < 10


@pytest.fixture
def interruptible():
    """Has SIGINT raise as in a program; processes that run tests side by side ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interruption_does_not_wait_for_silence(endpoint):
    interrupt = threading.Timer(0.0, os.kill, (os.getpid(), signal.SIGINT))

    def say_nothing(handler):
        interrupt.start()
        hang(handler)

    endpoint.on_probe = say_nothing
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        faults_of([at(endpoint, timeout_s=600.0)])
    assert time.monotonic() - began < 15 < probe.MAX_WAIT_S
    assert len(endpoint.probes) == 1, "it is not asked once more"


def test_a_key_that_is_not_set_is_a_fault_like_others(endpoint, monkeypatch):
    monkeypatch.delenv("JUDGE_KEY")
    (fault,) = faults_of([at(endpoint)])
    assert "JUDGE_KEY, which is not set" in fault
