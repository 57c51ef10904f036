"""Waits and distances between requests, on a clock that does not make anybody wait."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.api.conversation import Message
from agents.api.endpoint_config import EndpointConfig
from agents.api.failures import one_line, retry_after_s
from agents.api.retries import RateLimiter
from tests.unit.agents.api import endpoint as fake
from tests.unit.agents.api.clocks import FakeClock
from vlm_envs.errors import ConfigError

QUESTION = (Message(role="user", parts=("Go.",)),)


def starts_of(limiter, clock, count):
    starts = []
    for _ in range(count):
        asyncio.run(limiter.acquire())
        starts.append(clock.now_s())
    return starts


def test_no_minute_has_more_starts_than_allowed():
    clock = FakeClock()
    starts = starts_of(RateLimiter(12.0, clock), clock, 40)
    assert starts[:3] == [1000.0, 1005.0, 1010.0]
    assert max(sum(start <= other < start + 60.0 for other in starts) for start in starts) == 12


def test_time_that_passed_unused_is_not_made_up_for():
    clock = FakeClock()
    limiter = RateLimiter(60.0, clock)
    asyncio.run(limiter.acquire())
    clock.pass_by(600.0)
    assert starts_of(limiter, clock, 3) == [1600.0, 1601.0, 1602.0]


def test_without_a_limit_only_a_hold_makes_wait():
    clock = FakeClock()
    limiter = RateLimiter(None, clock)
    assert starts_of(limiter, clock, 2) == [1000.0, 1000.0]
    limiter.hold(30.0)
    limiter.hold(10.0)
    assert starts_of(limiter, clock, 2) == [1030.0, 1030.0]


class YieldingClock(FakeClock):
    """Lets other coroutines run while one sleeps."""

    async def sleep(self, duration_s):
        await asyncio.sleep(0)
        await super().sleep(duration_s)


def test_requests_that_wait_together_start_one_after_another():
    clock = YieldingClock()

    async def starts():
        limiter = RateLimiter(60.0, clock)

        async def start():
            await limiter.acquire()
            return clock.now_s()

        return await asyncio.gather(*(start() for _ in range(4)))

    assert asyncio.run(starts()) == [1000.0, 1001.0, 1002.0, 1003.0]


def test_requests_that_are_canceled_while_they_wait_leave_no_gap():
    clock = YieldingClock()

    async def start_after_canceled_ones():
        limiter = RateLimiter(60.0, clock)
        await limiter.acquire()
        waiting = [asyncio.ensure_future(limiter.acquire()) for _ in range(10)]
        await asyncio.sleep(0)
        for request in waiting:
            request.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await limiter.acquire()
        return clock.now_s()

    assert asyncio.run(start_after_canceled_ones()) == 1001.0


@pytest.mark.parametrize("counted", [{"prompt_tokens": 900, "completion_tokens": 100}, None])
def test_nothing_starts_beside_the_first_reply_whose_tokens_tell_what_one_takes(counted, endpoint, make_client, clock):
    """Eight at once would have used a limit of six replies a minute at the start."""
    client = make_client(tokens_per_minute=6000.0, max_parallel=8)
    num_at_first = []

    def first(handler):
        endpoint.released.wait(0.3)  # Long enough for all eight to come, were they let
        num_at_first.append(len(endpoint.requests))
        fake.body_of({**fake.completion(fake.YES), "usage": counted})(handler)

    endpoint.script.extend([fake.status(500), first])
    endpoint.answer = lambda messages: fake.YES
    start_s = clock.now_s()
    replies = client.map(lambda _: client.complete(QUESTION), range(8))
    assert [reply.text for reply in replies] == [fake.YES] * 8
    assert num_at_first == [2] and len(endpoint.requests) == 9
    assert clock.now_s() - start_s >= (10.0 if counted else 0.0)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "5"}, 5.0),
        ({"retry-after": "2.5"}, 2.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:42 GMT"}, 42.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:42 GMT", "date": "Wed, 21 Oct 2015 07:28:40 GMT"}, 2.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:27:00 GMT"}, 0.0),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Wed, 99 Oct 99999999 07:28:42 GMT"}, None),
    ],
)
def test_what_an_endpoint_asks_to_wait(headers, expected):
    # 1445412480 is Wed, 21 Oct 2015 07:28:00 GMT.
    assert retry_after_s(headers, now_s=1445412480.0) == expected


@given(st.text(), st.text())
def test_no_header_raises_and_no_wait_is_negative(asked, date):
    wait_s = retry_after_s({"retry-after": asked, "date": date}, now_s=0.0)
    assert wait_s is None or wait_s >= 0.0


@given(st.text())
def test_reasons_are_short_printable_lines(text):
    assert len(one_line(text)) <= 200 and one_line(text).isprintable()


@pytest.mark.parametrize(
    "change",
    [
        {"model": ""},
        {"base_url": "127.0.0.1:8000"},
        {"base_url": "file:///outside/secret.txt"},
        {"max_attempts": 0},
        {"max_parallel": 0},
        {"max_tokens": 0},
        {"timeout_s": 0.0},
        {"timeout_s": float("nan")},
        {"max_wait_s": float("inf")},
        {"temperature": -0.1},
        {"requests_per_minute": 0.0},
        {"tokens_per_minute": 0.0},
        {"top_p": 0.0},
        {"provider": "nobody"},
    ],
)
def test_configurations_that_could_never_work(change):
    with pytest.raises(ConfigError):
        EndpointConfig(**{"model": "judge", "base_url": "http://127.0.0.1:8000/v1", **change})
