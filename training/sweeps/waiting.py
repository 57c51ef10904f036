"""Runs that are under way in other processes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from concurrent.futures import Future, as_completed


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
