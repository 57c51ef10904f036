"""An endpoint that answers nobody is not waited for by everybody."""

from agents.api.conversation import Message
from agents.api.failures import Unavailable
from agents.api.retries import PROBE_S, Silence
from judges.llm.judge_prompts import read_yes_no
from tests.unit.agents.api import endpoint as fake
from tests.unit.agents.api.asking import ask


def test_an_endpoint_that_answers_nobody_costs_one_question_its_attempts_and_no_other(endpoint, make_client, clock):
    client = make_client(timeout_s=0.3, max_attempts=2, max_parallel=1)
    endpoint.script.extend([fake.hang] * 3)
    verdicts = client.map(lambda number: client.ask(_question(number), read_yes_no), range(20))
    assert all(isinstance(each, Unavailable) for each in verdicts)
    assert "not answered others in time" in verdicts[-1].reason
    assert len(endpoint.requests) == 2, "both attempts of the first question"
    clock.pass_by(PROBE_S)
    assert isinstance(ask(client, _question(0), read_yes_no), Unavailable)
    assert len(endpoint.requests) == 3, "who asks how it is asks once"
    clock.pass_by(PROBE_S)
    assert client.map(lambda number: client.ask(_question(number), read_yes_no), range(20)) == [True] * 20


def _question(number):
    return (Message(role="user", parts=(f"Is box {number} above the player?",)),)


def test_one_question_that_takes_too_long_among_others_that_are_answered_is_no_silence(clock):
    silence = Silence(clock)
    asked_s = clock.now_s()
    clock.pass_by(1.0)
    silence.end()  # another was answered meanwhile
    clock.pass_by(1.0)
    silence.begin(asked_s)
    assert silence.admits() and not silence.lasts
    silence.begin(clock.now_s())
    assert silence.lasts and not silence.admits()
