"""Passes that run several at a time: in order, no more at once than asked for, on their share of torch's threads."""

from __future__ import annotations

import threading
import time

import pytest
import torch

from training.update.micro_batches import SideBySide


@pytest.fixture(autouse=True)
def four_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def test_results_come_in_order_and_no_more_are_begun_than_are_computed_at_a_time():
    begun, taken, most = [], [], 0

    def items():
        for number in range(8):
            begun.append(number)
            yield number

    def compute(number):
        time.sleep(0.02 * (number % 2 == 0))  # the first of two is the slower one
        return number * 10

    for result in SideBySide(2).map(compute, items()):
        taken.append(result)
        most = max(most, len(begun) - len(taken))
    assert taken == [0, 10, 20, 30, 40, 50, 60, 70]
    assert most == 2


def test_they_are_under_way_at_the_same_time():
    both = threading.Barrier(2, timeout=10)
    assert list(SideBySide(2).map(lambda _: both.wait() in (0, 1), range(4))) == [True] * 4


@pytest.mark.parametrize(("wanted", "expected"), [(1, 1), (2, 2), (4, 4), (9, 4)])
def test_there_are_no_more_than_torch_has_threads(wanted, expected):
    assert SideBySide(wanted).num_at_once == expected


def test_each_has_its_share_of_the_threads_and_others_keep_theirs():
    side_by_side, weights = SideBySide(2), torch.rand(300, 300)

    def threads_of_a_product(_):
        (weights @ weights).relu()  # torch asks for the number of threads where it first shares out work
        return torch.get_num_threads()

    assert list(side_by_side.map(threads_of_a_product, range(4))) == [2] * 4
    assert threads_of_a_product(0) == 4
    others = []
    thread = threading.Thread(target=lambda: others.append(threads_of_a_product(0)))
    thread.start()
    thread.join()
    assert others == [4]


def test_one_at_a_time_runs_where_it_is_asked_for():
    assert list(SideBySide().map(lambda _: threading.current_thread(), range(2))) == [threading.current_thread()] * 2


def test_what_fails_is_raised_once_the_others_are_over():
    over = []

    def compute(number):
        if number == 0:
            raise RuntimeError("the first")
        time.sleep(0.2)
        over.append(number)

    with pytest.raises(RuntimeError, match="the first"):
        list(SideBySide(3).map(compute, range(9)))
    assert sorted(over) == [1, 2]


def test_the_threads_end_with_it():
    before = set(threading.enumerate())
    side_by_side = SideBySide(2)
    threads = set(threading.enumerate()) - before
    assert len(threads) == 2
    del side_by_side
    for thread in threads:
        thread.join(timeout=10)
        assert not thread.is_alive()
