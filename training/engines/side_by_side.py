"""Passes of models on a CPU, several at a time.

Threads that share out one operation wait for each other at its end, and a small model's operations take microseconds:
two cores do more with a micro-batch each than with half of every operation.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Barrier
from typing import TypeVar

import torch

T = TypeVar("T")
R = TypeVar("R")


class SideBySide:
    """Threads that passes run in, each with its share of torch's own threads. They end when nobody holds this any more.

    What runs in them is to leave modules as they are, and has gradients enabled at first, as in any new thread.

    Args:
        num_at_once: How many at most: no more than torch has threads, and with 1 passes run where they are asked for.
    """

    def __init__(self, num_at_once: int = 1) -> None:
        num_threads = torch.get_num_threads()
        self.num_at_once = min(num_at_once, num_threads)
        self._pool = _pool(self.num_at_once, num_threads) if self.num_at_once > 1 else None

    def map(self, compute: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Yields what is computed of each item, in their order; no more are begun than are computed at a time.

        Raises:
            Exception: What a computation raises, once the others that were begun are over.
        """
        if self._pool is None:
            yield from map(compute, items)
            return
        under_way: deque[Future[R]] = deque()
        try:
            for item in items:
                if len(under_way) == self.num_at_once:
                    yield under_way.popleft().result()
                under_way.append(self._pool.submit(compute, item))
            while under_way:
                yield under_way.popleft().result()
        finally:
            wait(under_way)


def _pool(num_at_once: int, num_threads: int) -> ThreadPoolExecutor:
    """Returns threads that have shared out torch's threads."""
    pool, all_there = ThreadPoolExecutor(num_at_once, thread_name_prefix="pass"), Barrier(num_at_once + 1)

    def take_share() -> None:
        torch.get_num_threads()  # Takes over torch's number, as a thread does when it first asks; and not again later
        torch.set_num_threads(num_threads // num_at_once)
        all_there.wait()

    for _ in range(num_at_once):
        pool.submit(take_share)
    all_there.wait()
    torch.set_num_threads(num_threads)  # A thread to come takes over what was set last, by whatever thread
    return pool
