"""An event loop in a thread of its own, for coroutines that are awaited from other threads."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

from vlm_envs.errors import ConfigError

_Result = TypeVar("_Result")


class LoopThread:
    """An event loop in a daemon thread, started when it is first used.

    A deadline holds there for a whole reply, where a socket's begins anew with every byte; what is under way can be
    given up; and the process ends without waiting for it, as it would for a thread of a pool.

    Args:
        name: The thread's.

    Attributes:
        is_stopped: Whether nothing may be submitted any more.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = 0
        self.is_stopped = False

    def submit(self, coroutine: Coroutine[Any, Any, _Result]) -> Future[_Result]:
        """Begins to carry something out; to cancel the future is to give it up.

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
                threading.Thread(target=self._loop.run_forever, name=self._name, daemon=True).start()
            if self._is_foreign:
                coroutine.close()
                raise ConfigError("This client was used before the process was forked. Make a new one in each process.")
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def give_up(self) -> None:
        """Gives up what is under way, if anything is; more may be submitted."""
        with self._lock:
            if self._loop is not None and not self._is_foreign:
                self._loop.call_soon_threadsafe(_cancel_all, self._loop)

    def stop(self, last: Coroutine[Any, Any, None]) -> None:
        """Gives up what is under way, carries out what is left to do, and ends the thread; a second time it is over."""
        with self._lock:  # Before the last one begins: what came between it and the end would never be answered
            loop, is_foreign = self._loop, self._is_foreign
            self._loop, self.is_stopped = None, True
        if loop is None or is_foreign:
            last.close()
            return
        asyncio.run_coroutine_threadsafe(_after_all_others(last), loop).result()
        loop.call_soon_threadsafe(loop.stop)

    @property
    def _is_foreign(self) -> bool:
        return self._loop is not None and self._pid != os.getpid()


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    for task in asyncio.all_tasks(loop):
        task.cancel()


async def _after_all_others(last: Coroutine[Any, Any, None]) -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await last
