"""Vectors of worlds of any kinds, played as one."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing import connection
from typing import Any

from vlm_envs.vector.env import VectorWorld
from vlm_envs.vector.episodes import Observations, Step

_LONGEST_WAIT_S = 0.5
"""How long nobody looks whether a worker has exceeded its time, in seconds."""


class JoinedWorlds:
    """The part of a `VectorWorld` that a rollout needs in which no world waits for another, over several of them.

    Worlds are numbered through: those of the first vector come first. Vectors may differ in their spaces, in where
    their worlds live, and in their time limits.

    Args:
        vectors: Whose worlds they are; the caller closes them.
    """

    def __init__(self, vectors: Sequence[VectorWorld]) -> None:
        self._vectors = list(vectors)
        self._first = [0, *itertools.accumulate(vector.num_envs for vector in vectors)]

    @property
    def num_envs(self) -> int:
        """How many worlds there are."""
        return self._first[-1]

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many worlds each vector has."""
        return tuple(vector.num_envs for vector in self._vectors)

    def send_resets(self, seeds: Mapping[int, int | None], *, levels: Mapping[int, str | None] | None = None) -> None:
        """Begins to start an episode in some worlds, as `VectorWorld.send_resets`."""
        for vector, own in self._shares(seeds):
            vector.send_resets(own(seeds), levels=own(levels or {}))

    def send(self, actions: Mapping[int, str]) -> None:
        """Begins a step of some worlds, as `VectorWorld.send`."""
        for vector, own in self._shares(actions):
            vector.send(own(actions))

    def recv(self, timeout_s: float | None = None) -> dict[int, Step]:
        """Returns the steps and resets that are done, of whichever vector, as `VectorWorld.recv`."""
        until = math.inf if timeout_s is None else time.monotonic() + timeout_s
        while True:
            done = {
                first + i: step
                for first, vector in zip(self._first, self._vectors, strict=False)
                for i, step in vector.recv(0.0).items()
            }
            pipes = [pipe for vector in self._vectors for pipe in vector.awaited]
            left_s = until - time.monotonic()
            if done or not pipes or left_s <= 0:
                return done
            connection.wait(pipes, min(left_s, _LONGEST_WAIT_S))

    def try_reset(self, *, seed: Sequence[int | None], options: dict[str, Any]) -> tuple[Observations, dict[str, Any]]:
        """Starts an episode wherever one can be started, as `VectorWorld.try_reset`.

        Args:
            seed: One seed per world.
            options: `"reset_mask"` and `"levels"` of all worlds; any other goes to each.

        Returns:
            The observations of all worlds, and `infos` with `"env"`; None and nothing where a vector is left alone.
        """
        observations: list[Any] = []
        infos: list[dict[str, Any]] = []
        for first, vector in zip(self._first, self._vectors, strict=False):
            own = slice(first, first + vector.num_envs)
            shared = {name: value for name, value in options.items() if name not in ("reset_mask", "levels")}
            if "reset_mask" in options and not any(options["reset_mask"][own]):
                observations.extend([None] * vector.num_envs)
                infos.extend({} for _ in range(vector.num_envs))
                continue
            of_each = {name: options[name][own] for name in ("reset_mask", "levels") if options.get(name) is not None}
            shown, told = vector.try_reset(seed=seed[own], options={**shared, **of_each})
            observations.extend(shown)
            infos.extend(told["env"])
        return tuple(observations), {"env": infos}

    def cancel(self) -> None:
        """Gives up what is under way, as `VectorWorld.cancel`."""
        for vector in self._vectors:
            vector.cancel()

    def _shares(self, asked: Mapping[int, Any]) -> Iterator[tuple[VectorWorld, _Own]]:
        """Yields the vectors that have any of these worlds, and what finds theirs by their own numbers."""
        for first, vector in zip(self._first, self._vectors, strict=False):
            own = _Own(first, vector.num_envs)
            if own(asked):
                yield vector, own


class _Own:
    """What finds, of something by number of the world, what is a vector's."""

    def __init__(self, first: int, num_envs: int) -> None:
        self._first, self._num_envs = first, num_envs

    def __call__(self, given: Mapping[int, Any]) -> dict[int, Any]:
        return {i - self._first: each for i, each in given.items() if 0 <= i - self._first < self._num_envs}
