"""Where the time of an iteration goes, by wrapping what is called; the trainers themselves know nothing of it."""

from __future__ import annotations

import functools
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch


class Stopwatch:
    """Seconds of one thread by part. Time in a part within another counts for the inner one only.

    Args:
        base: The part that everything else belongs to.
        clock: Gives seconds.
    """

    def __init__(self, base: str, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock, self._thread = clock, threading.get_ident()
        self._parts = [base]
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._since = clock()

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Has what happens within the block belong to a part; other threads change nothing."""
        if threading.get_ident() != self._thread:
            yield
            return
        self._settle()
        self._parts.append(name)
        try:
            yield
        finally:
            self._settle()
            self._parts.pop()

    def lap(self) -> dict[str, float]:
        """Returns the seconds by part since the last lap."""
        self._settle()
        seconds, self._seconds = dict(self._seconds), defaultdict(float)
        return seconds

    def wrap(self, owner: Any, name: str, part: str) -> None:
        """Has a method of an object or a class belong to a part."""
        inner = getattr(owner, name)

        @functools.wraps(inner)
        def timed(*args: Any, **kwargs: Any) -> Any:
            with self.part(part):
                return inner(*args, **kwargs)

        setattr(owner, name, timed)

    def _settle(self) -> None:
        now = self._clock()
        self._seconds[self._parts[-1]] += now - self._since
        self._since = now


class ModelCounts:
    """Tokens and pictures that go through a model, padding included, told apart by whether gradients are taken.

    A pass of several columns without gradients is a prefill, and its time belongs to that part.

    Args:
        watch: Counts the time.
        models: Qwen3-VLs with their heads, counted together; two of them may be at work at a time.
    """

    def __init__(self, watch: Stopwatch, *models: Any) -> None:
        self._watch, self._counts, self._counting = watch, Counter[str](), threading.Lock()
        for model in models:
            self._wrap(model.model, "forward", self._of_backbone)
            self._wrap(model.model, "get_rope_index", lambda *args, **kwargs: "")
            self._wrap(model.model, "get_image_features", lambda *args, **kwargs: "")
            self._wrap(model.model.visual, "forward", self._of_tower)

    def lap(self) -> dict[str, int]:
        """Returns the counts since the last lap."""
        with self._counting:
            counts, self._counts = dict(self._counts), Counter()
        return counts

    def _wrap(self, module: Any, name: str, count: Callable[..., str]) -> None:
        inner = getattr(module, name)

        @functools.wraps(inner)
        def counted(*args: Any, **kwargs: Any) -> Any:
            with self._counting:
                decodes = count(*args, **kwargs) == "decode"
            if torch.is_grad_enabled() or decodes:
                return inner(*args, **kwargs)
            with self._watch.part("prefill"):
                return inner(*args, **kwargs)

        setattr(module, name, counted)

    def _of_backbone(self, *args: Any, **kwargs: Any) -> str:
        ids_BT = kwargs.get("input_ids")
        ids_BT = args[0] if ids_BT is None else ids_BT
        num_rows, width = ids_BT.shape
        kind = "trained" if torch.is_grad_enabled() else "prefill" if width > 1 else "decode"
        self._counts[f"{kind}_tokens"] += num_rows * width
        return kind

    def _of_tower(self, *args: Any, **kwargs: Any) -> str:
        grids = kwargs.get("grid_thw")
        grids = args[1] if grids is None else grids
        kind = "trained" if torch.is_grad_enabled() else "sampled"
        self._counts[f"{kind}_images"] += len(grids)
        return kind
