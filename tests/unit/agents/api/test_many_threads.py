"""Asking from many threads and event loops: order, interruptions, closing a client, forks."""

import asyncio
import contextlib
import os
import signal
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
from tests.unit.agents.api.asking import ask

CHECKOUT = Path(__file__).parents[4]
QUESTION = (Message(role="user", parts=("Is the box above the player?",)),)


def press_ctrl_c():
    os.kill(os.getpid(), signal.SIGINT)


@contextlib.contextmanager
def ctrl_c():
    """Python's own handler of Ctrl-C: some suites inherit it ignored."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


class TestMap:
    def test_results_keep_their_order(self, endpoint, client):
        endpoint.answer = lambda messages: messages[0]["content"]
        texts = [f"text {number}" for number in range(40)]
        answers = client.map(lambda text: client.ask([Message(role="user", parts=(text,))], str), texts)
        assert answers == texts

    def test_an_interruption_does_not_wait_for_the_rest_and_harms_nothing(self, endpoint, make_client):
        client = make_client(max_parallel=1)

        async def question(number):
            if number == 1:
                raise KeyboardInterrupt
            return await client.ask(QUESTION, read_yes_no)

        with pytest.raises(KeyboardInterrupt):
            client.map(question, range(50))
        assert len(endpoint.requests) < 50
        assert ask(client, QUESTION, read_yes_no) is True

    @pytest.mark.parametrize("limits", [{}, {"requests_per_minute": 30}, {"tokens_per_minute": 10_000}], ids=str)
    def test_an_interruption_does_not_wait_for_a_model_that_is_silent(self, endpoint, make_client, limits):
        client = make_client(real_time=True, max_parallel=2, timeout_s=60.0, **limits)
        endpoint.script.extend([fake.hang] * 8)
        endpoint.on_request = lambda: press_ctrl_c() if len(endpoint.requests) == 1 else None
        start = time.monotonic()
        with ctrl_c(), pytest.raises(KeyboardInterrupt):
            client.map(lambda _: client.ask(QUESTION, read_yes_no), range(4))
        assert time.monotonic() - start < 20
        endpoint.script.clear()
        assert ask(client, QUESTION, read_yes_no) is True

    def test_nor_do_the_questions_of_other_threads(self, endpoint, make_client):
        client = make_client(real_time=True, max_parallel=2, timeout_s=60.0)
        endpoint.script.extend([fake.hang] * 8)
        answers, asked = [], threading.Event()
        endpoint.on_request = lambda: asked.set() if len(endpoint.requests) == 2 else None
        threads = [
            threading.Thread(target=lambda: answers.append(ask(client, QUESTION, read_yes_no))) for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        assert asked.wait(20)

        def items():
            yield from range(4)
            press_ctrl_c()

        start = time.monotonic()
        with ctrl_c(), pytest.raises(KeyboardInterrupt):
            client.map(lambda _: client.ask(QUESTION, read_yes_no), items())
        for thread in threads:
            thread.join(20)
        assert time.monotonic() - start < 20
        assert answers == [Unavailable("judge judge: it was given up")] * 2
        assert len(endpoint.requests) == 2
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
        thread = threading.Thread(target=lambda: answers.append(ask(client, QUESTION, read_yes_no)))
        thread.start()
        assert asked.wait(20)
        with pytest.raises(ZeroDivisionError):
            client.map(lambda number: 1 // number, [0])
        goes_on.set()
        thread.join(20)
        assert answers == [True]


class TestEventLoops:
    def test_questions_of_another_loop_are_asked_together_but_no_more_than_allowed(self, endpoint, make_client):
        client = make_client(max_parallel=3)
        endpoint.answer = lambda messages: endpoint.released.wait(0.05) or fake.YES

        async def questions():
            return await asyncio.gather(*(client.ask(QUESTION, read_yes_no) for _ in range(12)))

        assert asyncio.run(questions()) == [True] * 12
        assert endpoint.max_at_once == 3

    def test_a_canceled_question_frees_its_place(self, endpoint, make_client):
        client = make_client(real_time=True, max_parallel=1, timeout_s=60.0)
        endpoint.script.append(fake.hang)

        async def impatient():
            async with asyncio.timeout(0.3):
                await client.ask(QUESTION, read_yes_no)

        start = time.monotonic()
        with pytest.raises(TimeoutError):
            asyncio.run(impatient())
        assert ask(client, QUESTION, read_yes_no) is True
        assert time.monotonic() - start < 20
        usage = client.usage
        assert (usage.num_requests, usage.num_failed_requests, usage.num_unavailable) == (2, 1, 0)

    def test_an_error_cancels_the_other_questions_of_a_map(self, endpoint, make_client):
        client = make_client(real_time=True, timeout_s=60.0)
        endpoint.script.append(fake.hang)
        asked = threading.Event()
        endpoint.on_request = asked.set

        async def question(number):
            if number == 0:
                return await client.ask(QUESTION, read_yes_no)
            await asyncio.to_thread(asked.wait, 20)
            raise ZeroDivisionError

        start = time.monotonic()
        with pytest.raises(ZeroDivisionError):
            client.map(question, range(2))
        assert time.monotonic() - start < 20
        assert client.usage.num_failed_requests == 1

    def test_a_coroutine_on_the_clients_loop_may_not_wait_for_another(self, client):
        async def blocking():
            return ask(client, QUESTION, read_yes_no)

        with pytest.raises(RuntimeError, match="Await"):
            client.run(blocking())

    def test_what_raises_an_interruption_on_the_clients_loop_ends_only_itself(self, endpoint, client):
        async def leaving():
            raise SystemExit(3)

        with pytest.raises(SystemExit):
            client.run(leaving())
        assert ask(client, QUESTION, read_yes_no) is True


def test_closing_fails_all_questions_of_a_map(endpoint, make_client):
    client = make_client(timeout_s=30.0, max_parallel=2)
    endpoint.script.extend([fake.hang] * 2)
    endpoint.on_request = lambda: threading.Thread(target=client.close).start()
    answers = client.map(lambda _: client.ask(QUESTION, read_yes_no), range(5))
    assert answers == [Unavailable("judge judge: the client was closed")] * 5
    assert len(endpoint.requests) <= 2


def test_closing_makes_unavailable_what_is_under_way_and_may_be_repeated(endpoint, make_client):
    client = make_client(timeout_s=30.0)
    endpoint.script.append(fake.hang)
    started, answers = threading.Event(), []
    endpoint.on_request = started.set
    thread = threading.Thread(target=lambda: answers.append(ask(client, QUESTION, read_yes_no)))
    thread.start()
    assert started.wait(20)
    client.close()
    thread.join(20)
    assert answers == [Unavailable("judge judge: the client was closed")]
    client.close()


def test_a_closed_client_asks_nobody(endpoint, make_client):
    client = make_client()
    assert ask(client, QUESTION, read_yes_no) is True
    threads = threading.active_count()
    client.close()
    assert ask(client, QUESTION, read_yes_no) == Unavailable("judge judge: the client was closed")
    assert len(endpoint.requests) == 1 and threading.active_count() <= threads


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork, which this system does not have")
def test_a_client_used_before_a_fork_says_so_after_it(endpoint):
    program = (  # In a process of its own: a fork of one that has run other tests may inherit their locked locks
        "import os, sys, warnings; from agents.api.client import ChatClient; from agents.api.endpoint_config import *\n"
        "from agents.api.conversation import Message; from vlm_envs.errors import ConfigError\n"
        "warnings.simplefilter('ignore', DeprecationWarning)\n"  # Forking with threads is what is tried here
        "client = ChatClient(EndpointConfig(model='judge', base_url=sys.argv[1], api_key_variable=''))\n"
        "question = [Message(role='user', parts=('?',))]\n"
        "assert client.run(client.ask(question, str)) == 'YES'\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    try: client.run(client.ask(question, str))\n"
        "    except ConfigError: os._exit(7)\n"
        "    os._exit(1)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7\n"
    )
    endpoint.answer = lambda messages: "YES"
    subprocess.run([sys.executable, "-c", program, endpoint.base_url], cwd=CHECKOUT, timeout=280, check=True)
