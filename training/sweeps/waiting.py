"""Runs that are under way in other processes."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager


def wait_for(runs: Iterable[Future[str]], on_done: Callable[[], object] = lambda: None) -> None:
    """Waits for runs and tells of each; what the first of them fails of is raised, and those yet to begin are given up.

    Args:
        runs: Each gives the line that tells of it.
        on_done: Called behind each.
    """
    waiting = list(runs)
    for number, done in enumerate(as_completed(waiting), start=1):
        try:
            print(f"{number}/{len(waiting)} {done.result()}", file=sys.stderr, flush=True)
        except BaseException:
            for each in waiting:
                each.cancel()
            raise
        on_done()


@contextmanager
def spawned_pool(num_at_once: int) -> Iterator[ProcessPoolExecutor]:
    """Opens a pool of processes that begin anew, and end as soon as this one is gone, however it went.

    An error ends what is under way beside it. Ctrl-C does not, of which these processes know: they save and stop.
    """
    others = {process.pid for process in multiprocessing.active_children()}
    pool = ProcessPoolExecutor(num_at_once, multiprocessing.get_context("spawn"), initializer=_end_with_parent)
    try:
        yield pool
    except Exception:
        for process in multiprocessing.active_children():
            if process.pid not in others:
                process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _end_with_parent() -> None:
    """Ends this process with the one that started it; otherwise a run would go on beside the next call's."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "a pool's processes have one"

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
