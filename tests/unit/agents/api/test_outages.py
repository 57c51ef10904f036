"""An endpoint that is overloaded or out of reach is waited for; what does not pass is not."""

import logging

import pytest

from tests.unit.agents.api import endpoint as fake
from tests.unit.agents.api.asking import complete

pytest.importorskip("openai", reason="needs openai: pip install '.[api]'")

from agents.api.conversation import Message
from agents.api.endpoint_config import LONGEST_WAIT_S, MAX_UNUSABLE
from agents.api.failures import PermanentError, TransientError
from agents.registry import make_agent
from tests.unit.agents.api.conftest import KEY
from vlm_envs.errors import ConfigError

QUESTION = (Message(role="user", parts=("Go.",)),)
OUTAGES = {"429": fake.status(429), "500": fake.status(500), "529": fake.status(529), "reset": fake.reset}
UNUSABLE = {
    "no choices": fake.body_of({"choices": []}),
    "not JSON": fake.body_of(b"<html>"),
    "an error": fake.body_of({"error": "busy"}),
}


@pytest.fixture
def patient(make_client):
    return make_client(max_attempts=None, max_retry_s=600.0, max_wait_s=300.0)


@pytest.mark.parametrize("failure", OUTAGES.values(), ids=OUTAGES)
def test_an_outage_of_minutes_is_waited_out(failure, endpoint, patient, clock):
    start_s = clock.now_s()
    endpoint.answer = lambda messages: fake.YES
    endpoint.script.extend([failure] * 9)
    assert complete(patient, QUESTION).text == fake.YES
    assert clock.now_s() - start_s > 60.0
    assert max(clock.slept) <= LONGEST_WAIT_S


@pytest.mark.parametrize("failure", OUTAGES.values(), ids=OUTAGES)
def test_an_outage_without_an_end_is_given_up_after_the_time(failure, endpoint, patient, clock):
    start_s = clock.now_s()
    endpoint.script.extend([failure] * 99)
    with pytest.raises(TransientError):
        complete(patient, QUESTION)
    assert 600.0 <= clock.now_s() - start_s <= 600.0 + LONGEST_WAIT_S


@pytest.mark.parametrize("failure", UNUSABLE.values(), ids=UNUSABLE)
def test_unusable_replies_are_asked_for_a_few_times(failure, endpoint, patient):
    endpoint.script.extend([failure] * 99)
    with pytest.raises(TransientError):
        complete(patient, QUESTION)
    assert len(endpoint.requests) == MAX_UNUSABLE


def test_attempts_that_a_user_limits_are_limited(endpoint, make_client):
    endpoint.script.extend([fake.status(529)] * 9)
    with pytest.raises(TransientError):
        complete(make_client(max_attempts=2, max_retry_s=600.0), QUESTION)
    assert len(endpoint.requests) == 2


def test_a_fatal_refusal_is_not_waited_for(endpoint, patient, clock):
    endpoint.script.append(fake.status(404))
    with pytest.raises(PermanentError):
        complete(patient, QUESTION)
    assert not any(clock.slept) and len(endpoint.requests) == 1


def test_a_wait_that_is_too_long_is_told_with_the_limit(endpoint, patient):
    endpoint.script.append(fake.status(429, "Rate limit reached", headers={"Retry-After": "3600"}))
    with pytest.raises(TransientError, match=r"asked to wait 3,600 s; max_wait_s is 300"):
        complete(patient, QUESTION)
    assert len(endpoint.requests) == 1


def test_a_long_outage_is_logged_once_a_minute(endpoint, patient, caplog):
    caplog.set_level(logging.WARNING)
    endpoint.script.extend([fake.status(529, "overloaded")] * 9)
    endpoint.answer = lambda messages: fake.YES
    complete(patient, QUESTION)
    told = [record.getMessage() for record in caplog.records]
    assert 1 <= len(told) <= 4 and "overloaded" in told[0]


def test_agents_wait_by_default_and_judges_count(endpoint, make_client, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    player = make_agent(f"compatible:judge@{endpoint.base_url}")
    assert player.config.max_attempts is None and player.config.max_retry_s >= 300
    player.close()
    assert make_client().config.max_attempts == 5


def test_nothing_is_asked_for_ever(make_client):
    with pytest.raises(ConfigError, match="max_retry_s"):
        make_client(max_attempts=None, max_retry_s=None)
