"""The values used last, up to a size: rendered pictures, opened documents, indexes."""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

ValueT = TypeVar("ValueT")


class BoundedCache(Generic[ValueT]):
    """Keeps the values used last. Safe under threads: a value is made by one of them; pickled copies are empty.

    Args:
        max_size: Of all values together; the last one is kept however large it is.
        size_of: A value's size, which never changes; None where each counts as 1.
        drop: Called with every value that is let go.
    """

    def __init__(
        self,
        max_size: int,
        *,
        size_of: Callable[[ValueT], int] | None = None,
        drop: Callable[[ValueT], None] | None = None,
    ) -> None:
        self._max_size, self._size_of, self._drop = max_size, size_of, drop
        self._values: OrderedDict[Hashable, ValueT] = OrderedDict()
        self._size = 0
        self.renew_lock()
        _caches.add(self)

    def get(self, key: Hashable, make: Callable[[], ValueT]) -> ValueT:
        """Returns the value of a key, made if it is not kept."""
        with self._lock:
            if key not in self._values:
                self._values[key] = made = make()
                self._size += self._weight(made)
            self._values.move_to_end(key)
            while len(self._values) > 1 and self._size > self._max_size:
                _, dropped = self._values.popitem(last=False)
                self._size -= self._weight(dropped)
                if self._drop is not None:
                    self._drop(dropped)
            return self._values[key]

    def _weight(self, value: ValueT) -> int:
        return 1 if self._size_of is None else self._size_of(value)

    def renew_lock(self) -> None:
        """Makes the lock anew: a process forked while a thread was making a value would wait for ever."""
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return _empty, (self._max_size, self._size_of, self._drop)


def _empty(max_size: int, size_of: Any, drop: Any) -> BoundedCache[Any]:
    return BoundedCache(max_size, size_of=size_of, drop=drop)


_caches: weakref.WeakSet[BoundedCache[Any]] = weakref.WeakSet()


def _renew_locks() -> None:
    for cache in _caches:
        cache.renew_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)
