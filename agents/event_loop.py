"""Event loops: one in a thread of its own, and coroutines run from synchronous code, also in a notebook."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any, TypeVar

from vlm_envs.errors import ConfigError

_Result = TypeVar("_Result")


class LoopThread:
    """An event loop in a daemon thread, started when it is first used.

    The process ends without waiting for what is running, as it would for a pool of threads.

    Args:
        name: The thread's name.

    Attributes:
        is_stopped: Whether nothing may be submitted any more.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = 0
        self.is_stopped = False

    @property
    def is_current(self) -> bool:
        """Whether the caller runs on this loop."""
        return self._thread is threading.current_thread()

    def submit(self, coroutine: Coroutine[Any, Any, _Result]) -> Future[_Result]:
        """Starts a coroutine; canceling the future cancels it.

        Raises:
            CancelledError: If the thread was stopped.
            ConfigError: If it belongs to the process that this one was forked from.
        """
        with self._lock:
            if self.is_stopped:
                coroutine.close()
                raise CancelledError
            if self._loop is None:
                self._loop, self._pid = asyncio.new_event_loop(), os.getpid()
                self._thread = threading.Thread(target=_run, args=(self._loop,), name=self._name, daemon=True)
                self._thread.start()
            if self._is_foreign:
                coroutine.close()
                raise ConfigError("This client was used before the process was forked. Make a new one in each process.")
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def run(self, coroutine: Coroutine[Any, Any, _Result]) -> _Result:
        """Returns a coroutine's result; an interruption of the calling thread cancels it and does not wait for it.

        Raises:
            CancelledError: If the thread was stopped.
            ConfigError: If it belongs to the process that this one was forked from.
            RuntimeError: If called on this loop, which would wait for itself.
        """
        if self.is_current:
            coroutine.close()
            raise RuntimeError("run() would block the event loop that it is called on. Await the coroutine instead.")
        future = self.submit(coroutine)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def call(self, function: Callable[[], None]) -> None:
        """Calls a function on the loop soon, if the loop runs."""
        with self._lock:
            if self._loop is not None and not self._is_foreign:
                self._loop.call_soon_threadsafe(function)

    def stop(self, last: Coroutine[Any, Any, None]) -> None:
        """Runs a last coroutine and ends the thread; does nothing if it has ended."""
        with self._lock:  # Before the last one starts: what came between it and the end would never be answered
            loop, is_foreign = self._loop, self._is_foreign
            self._loop, self.is_stopped = None, True
        if loop is None or is_foreign:
            last.close()
            return
        asyncio.run_coroutine_threadsafe(last, loop).result()
        loop.call_soon_threadsafe(loop.stop)

    @staticmethod
    async def cancel_others(*, grace_s: float = 0.0) -> None:
        """Cancels all other tasks of the running loop, and waits until they have ended.

        Args:
            grace_s: They may continue as long as one ends by itself within this time.
        """
        others = asyncio.all_tasks() - {asyncio.current_task()}
        ended = others if grace_s else set()
        while others and ended:
            ended, others = await asyncio.wait(others, timeout=grace_s)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    @property
    def _is_foreign(self) -> bool:
        return self._loop is not None and self._pid != os.getpid()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Runs a loop until it is stopped: an interruption raised by a task goes to its awaiter and must not end others."""
    is_interrupted = True
    while is_interrupted:
        try:
            loop.run_forever()
            is_interrupted = False
        except (KeyboardInterrupt, SystemExit):
            pass
    loop.close()


def run_blocking(coroutine: Coroutine[Any, Any, _Result]) -> _Result:
    """Returns a coroutine's result.

    It runs in the calling thread, or in a temporary one if the calling thread already runs an event loop. Where
    the caller is interrupted, the coroutine is cancelled.
    """
    if _runs_event_loop():
        thread = LoopThread("run_blocking")
        try:
            return thread.run(coroutine)
        finally:
            thread.stop(LoopThread.cancel_others())
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(coroutine)
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
