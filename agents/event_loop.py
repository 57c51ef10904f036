"""Event loops: one in a separate thread, and coroutines run from synchronous code, including in a notebook."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

from vlm_envs.errors import ConfigError

_Result = TypeVar("_Result")


class LoopThread:
    """An event loop in a daemon thread, started on first use.

    Unlike with a thread pool, the process exits without waiting for running coroutines.

    Args:
        name: The thread's name.

    Attributes:
        is_stopped: Whether submitting is no longer possible.
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
            ConfigError: If the loop was started in the parent of a forked process.
        """
        with self._lock:
            if self.is_stopped:
                coroutine.close()
                raise CancelledError
            if self._loop is None:
                self._loop, self._pid = asyncio.new_event_loop(), os.getpid()
                self._thread = threading.Thread(target=_run, args=(self._loop,), name=self._name, daemon=True)
                self._thread.start()
            if self.is_foreign:
                coroutine.close()
                raise ConfigError("This client was used before the process was forked. Create one in each process.")
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def run(self, coroutine: Coroutine[Any, Any, _Result], *, waits_for_end: bool = False) -> _Result:
        """Returns a coroutine's result; an interruption of the calling thread cancels it.

        Args:
            coroutine: The coroutine.
            waits_for_end: Whether an interruption waits until the coroutine has ended.

        Raises:
            CancelledError: If the thread was stopped.
            ConfigError: If the loop was started in the parent of a forked process.
            RuntimeError: If called on this loop, which would wait for itself.
        """
        if self.is_current:
            coroutine.close()
            raise RuntimeError("run() would block the event loop that it is called on. Await the coroutine instead.")
        has_started, has_ended = threading.Event(), threading.Event()

        async def watched() -> _Result:
            has_started.set()
            try:
                return await coroutine
            finally:
                has_ended.set()

        future = self.submit(watched())
        try:
            return future.result()
        except BaseException:
            future.cancel()
            if waits_for_end:
                self.submit(_nothing()).result()  # runs after the coroutine's first step, if there was one
                if has_started.is_set():
                    has_ended.wait()
            raise
        finally:
            if not has_started.is_set():
                coroutine.close()

    def call(self, function: Callable[[], None]) -> None:
        """Calls a function on the loop soon, if the loop runs."""
        with self._lock:
            if self._loop is not None and not self.is_foreign:
                self._loop.call_soon_threadsafe(function)

    def stop(self, last: Coroutine[Any, Any, None]) -> None:
        """Runs a last coroutine and ends the thread; does nothing if the thread has ended."""
        if self.is_current:
            last.close()
            raise RuntimeError("stop() would block the event loop that it is called on. Call it from another thread.")
        with self._lock:  # before `last` starts: anything submitted between it and the end would never be answered
            loop, is_foreign = self._loop, self.is_foreign
            self._loop, self.is_stopped = None, True
        if loop is None or is_foreign:
            last.close()
            return
        asyncio.run_coroutine_threadsafe(last, loop).result()
        loop.call_soon_threadsafe(loop.stop)

    @staticmethod
    async def cancel_others(*, grace_s: float = 0.0) -> None:
        """Cancels all other tasks of the running loop and waits until they have ended.

        Args:
            grace_s: Time in which at least one task must end for the others to continue.
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
    def is_foreign(self) -> bool:
        """Whether the loop was started in the parent of this forked process."""
        return self._loop is not None and self._pid != os.getpid()


async def _nothing() -> None:
    pass


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


_shared: LoopThread | None = None
_shared_lock = threading.Lock()


def shared_loop() -> LoopThread:
    """Returns the event loop on which users' coroutines run, one per process.

    API clients and locks belong to the loop on which they are first used. A single loop for all rollouts and rewards
    makes them reusable.
    """
    global _shared
    with _shared_lock:
        if _shared is None or _shared.is_foreign:
            _shared = LoopThread("coroutines")
        return _shared


def run_blocking(coroutine: Coroutine[Any, Any, _Result]) -> _Result:
    """Returns the result of a coroutine on the shared loop, from synchronous code, even inside a running event loop.

    An interruption of the calling thread cancels the coroutine and waits until it has ended; a second one does not
    wait.
    """
    loop = shared_loop()
    if not loop.is_current:
        return loop.run(coroutine, waits_for_end=True)
    nested = LoopThread("nested coroutines")
    try:
        return nested.run(coroutine)
    finally:
        nested.stop(LoopThread.cancel_others())


async def not_canceling(awaitable: Awaitable[_Result], name: str) -> _Result:
    """Returns the result of a user's awaitable.

    Raises:
        RuntimeError: If it raised `CancelledError` without being canceled, which would end more than its own task.
    """
    try:
        return await awaitable
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise RuntimeError(f"{name} raised CancelledError") from None
