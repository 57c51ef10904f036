"""Asking from many threads: order, interruptions, closing a client, forks."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from agents.api.conversation import Message
from agents.api.failures import Unavailable
from judges.llm.judge_prompts import read_yes_no
from tests.unit.agents.api import endpoint as fake

CHECKOUT = Path(__file__).parents[4]
QUESTION = (Message(role="user", parts=("Is the box above the player?",)),)


class TestMap:
    def test_results_keep_their_order(self, endpoint, client):
        endpoint.answer = lambda messages: messages[0]["content"]
        texts = [f"text {number}" for number in range(40)]
        answers = client.map(lambda text: client.ask([Message(role="user", parts=(text,))], str), texts)
        assert answers == texts

    def test_an_interruption_does_not_wait_for_the_rest_and_harms_nothing(self, endpoint, make_client):
        client = make_client(max_parallel=1)

        def ask(number):
            if number == 1:
                raise KeyboardInterrupt
            return client.ask(QUESTION, read_yes_no)

        with pytest.raises(KeyboardInterrupt):
            client.map(ask, range(50))
        assert len(endpoint.requests) < 50
        assert client.ask(QUESTION, read_yes_no) is True

    @pytest.mark.parametrize("limits", [{}, {"requests_per_minute": 30}, {"tokens_per_minute": 10_000}], ids=str)
    def test_an_interruption_does_not_wait_for_a_model_that_is_silent(self, endpoint, make_client, limits):
        client = make_client(real_time=True, max_parallel=2, timeout_s=60.0, **limits)
        endpoint.script.extend([fake.hang] * 8)
        asked = threading.Event()
        endpoint.on_request = asked.set
        start = time.monotonic()
        with pytest.raises(KeyboardInterrupt), client.under_way(lambda _: client.ask(QUESTION, read_yes_no), range(4)):
            assert asked.wait(20)
            raise KeyboardInterrupt
        assert time.monotonic() - start < 20
        endpoint.script.clear()

    def test_nor_do_questions_within_others(self, endpoint, make_client):
        client = make_client(real_time=True, max_parallel=2, timeout_s=60.0)
        endpoint.script.extend([fake.hang] * 8)
        asked = threading.Event()
        endpoint.on_request = asked.set
        start = time.monotonic()
        with pytest.raises(KeyboardInterrupt), client.submitting() as submit:
            for number in range(4):
                submit(lambda _: client.ask(QUESTION, read_yes_no), number)
            with client.under_way(lambda _: client.ask(QUESTION, read_yes_no), range(4)):
                assert asked.wait(20)
                raise KeyboardInterrupt
        assert time.monotonic() - start < 20
        endpoint.script.clear()

    def test_what_fails_in_one_thread_costs_no_other_its_answer(self, endpoint, make_client):
        client = make_client(max_parallel=2, timeout_s=60.0)
        asked, goes_on = threading.Event(), threading.Event()

        def late(messages):
            asked.set()
            assert goes_on.wait(20)
            return "<answer>YES</answer>"

        endpoint.answer = late
        answers = []
        thread = threading.Thread(target=lambda: answers.append(client.ask(QUESTION, read_yes_no)))
        thread.start()
        assert asked.wait(20)
        with pytest.raises(ZeroDivisionError):
            client.map(lambda number: 1 // number, [0])
        goes_on.set()
        thread.join(20)
        assert answers == [True]


def test_closing_makes_unavailable_what_is_under_way_and_may_be_repeated(endpoint, make_client):
    client = make_client(timeout_s=30.0)
    endpoint.script.append(fake.hang)
    started, answers = threading.Event(), []
    endpoint.on_request = started.set
    thread = threading.Thread(target=lambda: answers.append(client.ask(QUESTION, read_yes_no)))
    thread.start()
    assert started.wait(20)
    client.close()
    thread.join(20)
    assert answers == [Unavailable("judge judge: the client was closed")]
    client.close()


def test_a_closed_client_asks_nobody(endpoint, make_client):
    client = make_client()
    assert client.ask(QUESTION, read_yes_no) is True
    threads = threading.active_count()
    client.close()
    assert client.ask(QUESTION, read_yes_no) == Unavailable("judge judge: the client was closed")
    assert len(endpoint.requests) == 1 and threading.active_count() <= threads


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork, which this system does not have")
def test_a_client_used_before_a_fork_says_so_after_it(endpoint):
    program = (  # In a process of its own: a fork of one that has run other tests may inherit their locked locks
        "import os, sys, warnings; from agents.api.client import ChatClient; from agents.api.endpoint_config import *\n"
        "from agents.api.conversation import Message; from vlm_envs.errors import ConfigError\n"
        "warnings.simplefilter('ignore', DeprecationWarning)\n"  # Forking with threads is what is tried here
        "client = ChatClient(EndpointConfig(model='judge', base_url=sys.argv[1], api_key_variable=''))\n"
        "question = [Message(role='user', parts=('?',))]\n"
        "assert client.ask(question, str) == 'YES'\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    try: client.ask(question, str)\n"
        "    except ConfigError: os._exit(7)\n"
        "    os._exit(1)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7\n"
    )
    endpoint.answer = lambda messages: "YES"
    subprocess.run([sys.executable, "-c", program, endpoint.base_url], cwd=CHECKOUT, timeout=280, check=True)
