"""Runs coroutines from synchronous code, also in a notebook."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

_Result = TypeVar("_Result")


def run_blocking(coroutine: Coroutine[Any, Any, _Result]) -> _Result:
    """Returns a coroutine's result.

    It runs in the calling thread, or in a temporary one if the calling thread already runs an event loop. Where
    the caller is interrupted, the coroutine is cancelled.
    """
    loop = asyncio.new_event_loop()
    if not _runs_event_loop():
        try:
            return loop.run_until_complete(coroutine)
        finally:
            _cancel_and_close(loop)
    threading.Thread(target=run_until_stopped, args=(loop,), name="run_blocking", daemon=True).start()
    try:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)


def run_until_stopped(loop: asyncio.AbstractEventLoop) -> None:
    """Runs an event loop until it is stopped; then cancels what is unfinished and closes it."""
    try:
        loop.run_forever()
    finally:
        _cancel_and_close(loop)


def _runs_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _cancel_and_close(loop: asyncio.AbstractEventLoop) -> None:
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    while unfinished := [task for task in tasks if not task.done()]:
        # A task that waits for an interrupted one raises its KeyboardInterrupt again
        with suppress(KeyboardInterrupt):
            loop.run_until_complete(asyncio.wait(unfinished))
    for task in tasks:
        if not task.cancelled():
            task.exception()  # marks it as known, or the loop reports it
    loop.close()
