"""Asking an endpoint that fails in every way: what is tried again, what is unavailable, what it costs."""

import gc
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agents.api.client import ReplyCache
from agents.api.conversation import Message
from agents.api.failures import TransientError, Unavailable
from judges.llm.judge_prompts import read_yes_no
from tests.unit.agents.api import endpoint as fake
from tests.unit.agents.api.asking import ask, complete
from tests.unit.agents.api.conftest import KEY
from vlm_envs.errors import ConfigError

CHECKOUT = Path(__file__).parents[4]
QUESTION = (Message(role="user", parts=("Is the box above the player?",)),)
PASSING = {
    "429": fake.status(429),
    "429 with a wait": fake.status(429, headers={"Retry-After": "3"}),
    "500": fake.status(500),
    "503": fake.status(503),
    "408": fake.status(408),
    "reset": fake.reset,
    "no answer": fake.no_answer,
    "half a body": fake.half_a_body,
    "not JSON": fake.body_of(b"<html>Bad gateway</html>"),
    "deeply nested JSON": fake.body_of(b"[" * 1500),
    "not UTF-8": fake.body_of(b"\xff\xfe{}"),
    "empty body": fake.body_of(b""),
    "error with status 200": fake.body_of({"error": {"message": "overloaded"}}),
    "no choices": fake.body_of({"choices": []}),
    "content of another type": fake.body_of({"choices": [{"message": {"content": {"a": 1}}}]}),
    "a list": fake.body_of([1, 2]),
    "endless body": fake.endless_body,
}
SLOW = {
    "hang": fake.hang,
    "drip of the body": fake.drip_body,
    "drip of the headers": fake.drip_headers,
    "drip of a refusal": fake.drip_refusal,
}


@pytest.mark.parametrize("failure", PASSING.values(), ids=PASSING)
def test_a_failure_that_may_pass_is_tried_again(failure, endpoint, client):
    endpoint.script.extend([failure, failure])
    assert ask(client, QUESTION, read_yes_no) is True
    usage = client.usage
    assert (usage.num_requests, usage.num_failed_requests, usage.num_unavailable) == (3, 2, 0)
    assert (usage.prompt_tokens, usage.completion_tokens) == (100, 10)


@pytest.mark.parametrize("failure", PASSING.values(), ids=PASSING)
def test_a_failure_that_does_not_pass_is_unavailable_after_all_attempts(failure, endpoint, make_client):
    client = make_client(max_attempts=3)
    endpoint.script.extend([failure] * 4)
    unavailable = ask(client, QUESTION, read_yes_no)
    assert isinstance(unavailable, Unavailable) and "judge" in unavailable.reason
    assert len(endpoint.requests) == 3
    assert (client.usage.num_unavailable, client.usage.num_failed_requests) == (1, 3)


@pytest.mark.parametrize("failure", SLOW.values(), ids=SLOW)
def test_a_reply_has_to_be_whole_in_time(failure, endpoint, make_client):
    client = make_client(timeout_s=0.4, max_attempts=1)
    endpoint.script.append(failure)
    unavailable = ask(client, QUESTION, read_yes_no)
    assert isinstance(unavailable, Unavailable) and "no whole reply within 0.4 s" in unavailable.reason
    # The connection that hung does not stand in the way of the next.
    assert ask(make_client(timeout_s=30.0), QUESTION, read_yes_no) is True


def test_nobody_at_the_address_is_unavailable(endpoint, make_client):
    endpoint.__exit__()
    client = make_client(max_attempts=2)
    assert isinstance(ask(client, QUESTION, read_yes_no), Unavailable)
    assert client.usage.num_failed_requests == 2


def test_a_status_is_told_once(endpoint, client):
    endpoint.script.append(lambda handler: handler.send(404, b""))
    unavailable = ask(client, QUESTION, read_yes_no)
    assert isinstance(unavailable, Unavailable)
    assert unavailable.reason.count("404") == 1


@pytest.mark.parametrize("code", [400, 401, 403, 404, 422])
def test_a_refusal_is_not_repeated(code, endpoint, client):
    endpoint.script.append(fake.status(code, "no such model"))
    unavailable = ask(client, QUESTION, read_yes_no)
    assert (
        isinstance(unavailable, Unavailable)
        and f"HTTP {code}" in unavailable.reason
        and "no such model" in unavailable.reason
    )
    assert len(endpoint.requests) == 1


def test_a_used_up_account_is_no_busy_one(endpoint, client):
    endpoint.script.append(fake.status(429, "quota", error_code="insufficient_quota"))
    assert isinstance(ask(client, QUESTION, read_yes_no), Unavailable)
    assert len(endpoint.requests) == 1


def test_the_key_is_sent_and_never_told(endpoint, client):
    endpoint.script.append(fake.status(401, f"Incorrect key {KEY}\nsee the manual"))
    unavailable = ask(client, QUESTION, read_yes_no)
    assert endpoint.keys == [f"Bearer {KEY}"]
    assert KEY not in unavailable.reason and "\n" not in unavailable.reason
    assert KEY not in repr(client.config)


def test_a_key_that_is_not_set_is_an_error_before_any_request(make_client):
    with pytest.raises(ConfigError, match="NOBODYS_KEY, which is not set"):
        make_client(api_key_variable="NOBODYS_KEY")
    make_client(api_key_variable="")


class TestWaits:
    def test_retry_after_is_obeyed(self, endpoint, client, clock):
        endpoint.script.append(fake.status(429, headers={"Retry-After": "17"}))
        start_s = clock.now_s()
        assert ask(client, QUESTION, read_yes_no) is True
        assert clock.now_s() - start_s >= 17.0

    def test_retry_after_as_a_date_counts_from_the_servers_own_clock(self, endpoint, client, clock):
        # Without `send_response`, which would add a Date of today.
        def far_away(handler):
            handler.send_response_only(503)
            handler.send_header("Date", "Wed, 21 Oct 2015 07:28:00 GMT")
            handler.send_header("Retry-After", "Wed, 21 Oct 2015 07:28:42 GMT")
            handler.send_header("Content-Length", "0")
            handler.end_headers()

        endpoint.script.append(far_away)
        start_s = clock.now_s()
        assert ask(client, QUESTION, read_yes_no) is True
        assert 42.0 <= clock.now_s() - start_s < 43.5

    def test_a_wait_that_is_too_long_is_unavailable_now(self, endpoint, make_client, clock):
        endpoint.script.append(fake.status(429, headers={"Retry-After": "3600"}))
        assert isinstance(ask(make_client(max_wait_s=60.0), QUESTION, read_yes_no), Unavailable)
        assert len(endpoint.requests) == 1
        assert not any(clock.slept)

    def test_one_requests_wait_is_all_requests_wait(self, endpoint, make_client, clock):
        client = make_client(max_attempts=1)
        endpoint.script.append(fake.status(429, headers={"Retry-After": "17"}))
        assert isinstance(ask(client, QUESTION, read_yes_no), Unavailable)
        start_s = clock.now_s()
        assert ask(client, QUESTION, read_yes_no) is True
        assert clock.now_s() - start_s == pytest.approx(17.0)

    def test_waits_double_with_jitter_up_to_a_limit(self, endpoint, make_client, clock):
        client = make_client(first_wait_s=2.0, max_wait_s=5.0, max_attempts=5)
        endpoint.script.extend([fake.status(500)] * 5)
        ask(client, QUESTION, read_yes_no)
        waits = [wait for wait in clock.slept if wait > 0.0]
        # Full waits 2, 4, 8 -> 5, 5; each shortened by at most one half.
        assert [full / 2 <= wait <= full for wait, full in zip(waits, (2, 4, 5, 5), strict=True)] == [True] * 4

    def test_requests_are_spaced(self, endpoint, make_client, clock):
        client = make_client(requests_per_minute=30.0)
        start_s = clock.now_s()
        assert client.map(lambda _: client.ask(QUESTION, read_yes_no), range(5)) == [True] * 5
        # The first at once, four more 2 s apart; a fake clock lets every sleeper's time add up.
        assert clock.now_s() - start_s >= 8.0

    def test_tokens_are_spaced(self, endpoint, make_client, clock):
        client = make_client(tokens_per_minute=660.0)
        start_s = clock.now_s()
        for _ in range(5):
            ask(client, QUESTION, read_yes_no)
        # Each of 100 + 10 tokens, a sixth of a minute's; what the first takes is known only after it
        assert clock.now_s() - start_s == pytest.approx(40.0)

    def test_no_more_at_once_than_allowed_from_any_number_of_threads(self, endpoint, make_client):
        client = make_client(max_parallel=3)
        # Long enough for all twelve to meet, were they let.
        endpoint.answer = lambda messages: endpoint.released.wait(0.05) or fake.YES
        with ThreadPoolExecutor(12) as pool:
            assert list(pool.map(lambda _: ask(client, QUESTION, read_yes_no), range(24))) == [True] * 24
        assert len(endpoint.requests) == 24
        assert endpoint.max_at_once == 3


class TestUnreadable:
    def test_it_is_asked_for_once_more_with_the_reason(self, endpoint, client):
        endpoint.script.append(fake.reply("I would say yes."))
        assert ask(client, QUESTION, read_yes_no) is True
        first, second = (request["messages"] for request in endpoint.requests)
        assert first == [{"role": "user", "content": QUESTION[0].text}]
        assert second[:2] == [*first, {"role": "assistant", "content": "I would say yes."}]
        assert "exactly one <answer>" in second[2]["content"]
        usage = client.usage
        assert (usage.num_unreadable, usage.num_unavailable, usage.num_requests) == (1, 0, 2)

    @pytest.mark.parametrize("text", ["", None, "MAYBE", "<answer>YES</answer><answer>NO</answer>"])
    def test_twice_is_unavailable_and_costs(self, text, endpoint, make_client, prices_of):
        client = make_client(prices=prices_of(2.0, 5.0))
        endpoint.answer = lambda messages: text
        unavailable = ask(client, QUESTION, read_yes_no)
        assert isinstance(unavailable, Unavailable) and "unreadable twice" in unavailable.reason
        usage = client.usage
        assert (usage.num_unreadable, usage.num_unavailable, usage.num_requests) == (2, 1, 2)
        # 2 replies of 100 + 10 tokens: 2 · (100 · 2 + 10 · 5) / 10^6.
        assert usage.usd == pytest.approx(500e-6)


class TestCost:
    def test_tokens_times_price(self, endpoint, make_client, prices_of):
        client = make_client(prices=prices_of(0.1, 0.4))
        endpoint.script.append(fake.body_of(fake.completion(fake.YES, 1_500_000, 250_000)))
        ask(client, QUESTION, read_yes_no)
        # 1.5 · 0.1 + 0.25 · 0.4
        assert client.usage.usd == pytest.approx(0.25)

    def test_an_unknown_price_is_no_cost_rather_than_none(self, endpoint, client):
        ask(client, QUESTION, read_yes_no)
        assert client.usage.usd is None
        assert "USD" not in str(client.usage)

    def test_an_unknown_price_is_no_cost_when_nothing_was_counted_either(self, endpoint, client):
        assert client.usage.usd is None
        endpoint.script.append(fake.body_of({**fake.completion(fake.YES), "usage": None}))
        ask(client, QUESTION, read_yes_no)
        assert client.usage.usd is None and "USD" not in str(client.usage)

    def test_a_reply_that_nobody_can_read_was_paid_for_all_the_same(self, endpoint, make_client, prices_of):
        client = make_client(prices=prices_of(2.0, 5.0), max_attempts=2)
        nothing = fake.body_of({**fake.completion(""), "choices": []})
        endpoint.script.extend([nothing] * 3)
        with pytest.raises(TransientError) as caught:
            complete(client, QUESTION)
        assert (caught.value.tokens.prompt, caught.value.tokens.completion) == (200, 20)
        assert complete(client, QUESTION).tokens.prompt == 200  # The attempt before it included
        usage = client.usage
        assert (usage.num_requests, usage.num_failed_requests, usage.num_uncounted) == (4, 3, 0)
        assert usage.usd == pytest.approx(4 * (100 * 2 + 10 * 5) / 10**6)

    @pytest.mark.parametrize("counted", [None, {}, {"prompt_tokens": "many"}, {"prompt_tokens": -5}, [1]])
    def test_replies_without_counts_are_counted_as_such(self, counted, endpoint, client):
        endpoint.script.append(fake.body_of({**fake.completion(fake.YES), "usage": counted}))
        assert ask(client, QUESTION, read_yes_no) is True
        assert (client.usage.num_uncounted, client.usage.prompt_tokens) == (1, 0)


class TestCache:
    def test_what_was_asked_before_costs_nothing(self, endpoint, make_client, tmp_path, prices_of):
        settings = {"cache_dir": tmp_path, "prices": prices_of(1.0)}
        assert ask(make_client(**settings), QUESTION, read_yes_no) is True
        again = make_client(**settings)
        assert ask(again, QUESTION, read_yes_no) is True
        assert len(endpoint.requests) == 1
        assert (again.usage.num_cached, again.usage.num_requests, again.usage.usd) == (1, 0, 0.0)
        assert KEY not in "".join(path.read_text() for path in tmp_path.rglob("*.json"))

    def test_equal_questions_at_the_same_time_are_asked_once(self, endpoint, make_client, tmp_path):
        client = make_client(cache_dir=tmp_path, max_parallel=2)
        endpoint.answer = lambda messages: endpoint.released.wait(0.1) or fake.YES
        other = [Message(role="user", parts=("Is it below?",))]
        asked = [QUESTION, QUESTION, QUESTION, other, QUESTION]
        assert client.map(lambda question: client.ask(question, read_yes_no), asked) == [True] * 5
        assert len(endpoint.requests) == 2
        assert (client.usage.num_questions, client.usage.num_cached) == (5, 3)

    def test_an_equal_question_is_asked_again_if_the_first_failed(self, endpoint, make_client, tmp_path):
        client = make_client(cache_dir=tmp_path, max_attempts=1)
        endpoint.script.append(fake.status(500))
        first, second = client.map(lambda _: client.ask(QUESTION, read_yes_no), range(2))
        assert isinstance(first, Unavailable) and second is True

    def test_every_part_of_a_question_counts(self, endpoint, make_client, tmp_path):
        client = make_client(cache_dir=tmp_path)
        ask(client, QUESTION, read_yes_no)
        ask(client, [Message(role="user", parts=("Is it below?",))], read_yes_no)
        ask(client, QUESTION, read_yes_no, temperature=0.5)
        ask(client, QUESTION, read_yes_no, temperature=0.5, sample=1)
        ask(make_client(cache_dir=tmp_path, model="another"), QUESTION, read_yes_no)
        ask(make_client(cache_dir=tmp_path, max_tokens=7), QUESTION, read_yes_no)
        assert len(endpoint.requests) == 6

    @pytest.mark.parametrize(
        "content", [b"", b"{", b"[]", b"\xff", b'{"key": "another", "reply": "<answer>NO</answer>"}', b"[" * 1500]
    )
    def test_a_damaged_entry_is_replaced(self, content, endpoint, make_client, tmp_path):
        ask(make_client(cache_dir=tmp_path), QUESTION, read_yes_no)
        (entry,) = tmp_path.rglob("*.json")
        entry.write_bytes(content)
        gc.collect()  # what other tests left, whose destructors would fail at the bottom of a recursion
        assert ask(make_client(cache_dir=tmp_path), QUESTION, read_yes_no) is True
        assert len(endpoint.requests) == 2
        assert json.loads(entry.read_text())["reply"] == fake.YES
        assert [path.name for path in tmp_path.rglob("*.tmp")] == []

    def test_an_entry_that_cannot_be_read_as_a_verdict_is_replaced(self, endpoint, make_client, tmp_path):
        ask(make_client(cache_dir=tmp_path), QUESTION, str)
        (entry,) = tmp_path.rglob("*.json")
        entry.write_text(json.dumps({"key": entry.stem, "reply": "hm"}))
        assert ask(make_client(cache_dir=tmp_path), QUESTION, read_yes_no) is True
        assert len(endpoint.requests) == 2

    def test_unreadable_replies_and_failures_are_not_kept(self, endpoint, make_client, tmp_path):
        client = make_client(cache_dir=tmp_path, max_attempts=1)
        endpoint.script.extend([fake.reply("hm"), fake.reply("hm"), fake.status(500)])
        assert isinstance(ask(client, QUESTION, read_yes_no), Unavailable)
        assert isinstance(ask(client, QUESTION, read_yes_no), Unavailable)
        assert list(tmp_path.rglob("*.json")) == []

    def test_a_folder_that_cannot_be_used_is_an_error_at_once(self, make_client, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(ConfigError, match="cache_dir"):
            make_client(cache_dir=tmp_path / "file")

    def test_a_disk_that_takes_nothing_is_logged(self, endpoint, make_client, tmp_path, caplog):
        client = make_client(cache_dir=tmp_path / "cache")
        (tmp_path / "cache").rmdir()
        assert ask(client, QUESTION, read_yes_no) is True
        assert "was not cached" in caplog.text

    def test_two_processes_share_a_folder(self, tmp_path):
        program = (
            "import sys; from pathlib import Path; from agents.api.client import ReplyCache\n"
            "cache = ReplyCache(Path(sys.argv[1]))\n"
            "for turn in range(300):\n"
            "    key = f'{turn % 7:064x}'\n"
            "    found = cache.get(key)\n"
            "    assert found in (None, key * 50), found\n"
            "    cache.put(key, key * 50)\n"
        )
        processes = [
            subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], cwd=CHECKOUT, stderr=subprocess.PIPE)
            for _ in range(2)
        ]
        errors = [process.communicate(timeout=280)[1].decode() for process in processes]
        assert errors == ["", ""]
        assert ReplyCache(tmp_path).get(f"{6:064x}") == f"{6:064x}" * 50
        assert list(tmp_path.rglob("*.tmp")) == []
