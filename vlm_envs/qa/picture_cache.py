"""The last few pictures that image references made or read."""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable

from vlm_envs.tools.pictures import Picture


class PictureCache:
    """Keeps the pictures used last, up to a number of bytes. Safe under threads: a picture is made by one of them.

    Args:
        max_bytes: Most bytes of pixels kept; the last picture is kept however large it is.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._kept: OrderedDict[Hashable, Picture] = OrderedDict()
        self._lock = threading.Lock()
        _caches.add(self)

    def picture(self, key: Hashable, make: Callable[[], Picture]) -> Picture:
        """Returns the picture of a key, made if it is not kept."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
            self._kept[key] = picture = make()
            while len(self._kept) > 1 and sum(kept.pixels.nbytes for kept in self._kept.values()) > self._max_bytes:
                self._kept.popitem(last=False)
            return picture

    def renew_lock(self) -> None:
        """Makes the lock anew: a process forked while a thread was drawing would wait for ever."""
        self._lock = threading.Lock()


_caches: weakref.WeakSet[PictureCache] = weakref.WeakSet()


def _renew_locks() -> None:
    for cache in _caches:
        cache.renew_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)
