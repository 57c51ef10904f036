"""Streamed replies: whether a stream was sent to its end."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import httpx2

from agents.api.failures import TransientError

UNCOMPRESSED = {"Accept-Encoding": "identity"}
"""Request header that keeps the end of a stream readable for `EndOfStream`."""

_DONE = re.compile(rb"(?:^|[\r\n])data: ?\[DONE\]")
_MAX_DONE_BYTES = 16


class EndOfStream(httpx2.AsyncByteStream):
    """Passes on the bytes of a stream and notes whether `data: [DONE]` was among them.

    Args:
        inner: The stream of an HTTP response that has not been read yet.
    """

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.was_sent = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        tail = b""
        async for chunk in self._inner:
            tail += chunk
            self.was_sent = self.was_sent or bool(_DONE.search(tail))
            tail = tail[-_MAX_DONE_BYTES:]
            yield chunk

    async def aclose(self) -> None:
        """Closes the stream."""
        await self._inner.aclose()


def stream_ended_early() -> TransientError:
    """Returns the error of a stream that ended before the reply was complete."""
    return TransientError("the stream ended before the reply was complete")
