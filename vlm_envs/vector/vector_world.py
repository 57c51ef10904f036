"""A Gymnasium vector environment that keeps text intact and survives the loss of a worker.

Gymnasium's own vector environments batch observations into arrays, which cannot represent free text.
`VectorWorld` keeps each world's observation unchanged and batches only numbers and flags.
"""

from __future__ import annotations

import copy
import functools
import itertools
import math
import multiprocessing
import os
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from types import NoneType
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode, VectorEnv

from vlm_envs.errors import ConfigError, EpisodeOverError
from vlm_envs.validation import require_choice, require_positive
from vlm_envs.vector.ray_workers import ray_pool
from vlm_envs.vector.running_episodes import (
    CALLER_MISTAKES,
    Episodes,
    Flags,
    Observations,
    Step,
    acting_worlds,
    reset_levels,
    reset_mask,
    reset_seeds,
)
from vlm_envs.vector.worker_pools import PipedPool, SerialPool, WorkerPool, run, shares_of
from vlm_envs.vector.workers import Call, CallResult, EnvFn, LocalWorker, pack

Actions = Sequence[str | None]
Steps = tuple[Observations, npt.NDArray[np.float64], Flags, Flags, dict[str, Any]]


class VectorWorld(VectorEnv[Observations, Actions, npt.NDArray[Any]]):
    """Several worlds stepped together.

    Observations are a tuple of the worlds' own observations; an action is a sequence of response texts.
    Episodes are reset by the caller (`AutoresetMode.DISABLED`), all of them or those of a mask.

    `infos["env"][i]` is world i's own `info`. `infos["success"]` and `infos["format_correct"]` are bool[N]
    with the same facts. `infos["_env"]`, `infos["_success"]`, and `infos["_format_correct"]` are bool[N] that
    mark the worlds that acted in this call, as in every Gymnasium vector environment; the others repeat their
    last facts.

    A world that fails in `step` ends only its own episode: it is truncated with reward 0, its last
    observation, `success` False, and the reason in `infos["env"][i]["worker_error"]`, and its next reset
    restarts it. This covers a process that dies, a call that takes longer than `step_timeout_s`, and
    exceptions, except those that indicate a mistake of the caller (`ConfigError`, `EpisodeOverError`,
    `LevelError`): they are raised, as is every exception in `reset`; `try_reset` tries again and skips worlds
    that cannot be started. A worker that dies or hangs ends the running episodes of all worlds it serves.
    Threads cannot be killed: one that hangs is abandoned. Serial workers have no timeout.

    Args:
        env_fns: Functions that create the worlds; all must have the same spaces.
        workers: `"serial"` (in this thread), `"thread"`, `"process"`, or `"ray"` (actors on the machines of a
            Ray cluster: `RAY_ADDRESS`, or a local one).
        num_workers: Number of threads, processes, or actors, each serving several worlds; None for one per
            CPU core.
        step_timeout_s: Maximum time of a call on one world, in seconds.
        start_method: How processes start: `"spawn"`, `"forkserver"`, or `"fork"`.

    Raises:
        ConfigError: If an argument is not valid or the worlds differ in their spaces.
        EngineUnavailableError: If `workers="ray"` and Ray is not available.
        WorkerError: If a worker cannot start.

    Attributes:
        counts_optimal_actions: Whether worlds are reset with the option `"optimal_actions"`, which adds
            `optimal_actions_left` to the `info` of their episodes; set it before a reset whose episodes are
            recorded.
        kinds: For each world, the number of its kind; equal `env_fns` make worlds of one kind.
    """

    counts_optimal_actions: bool = False
    _pool: WorkerPool | None = None

    def __init__(
        self,
        env_fns: Sequence[Callable[[], gym.Env[Any, Any]]],
        *,
        workers: str = "serial",
        num_workers: int | None = None,
        step_timeout_s: float = 60.0,
        start_method: str = "spawn",
    ) -> None:
        if not env_fns:
            raise ConfigError("VectorWorld needs at least one environment function; got none.")
        if not step_timeout_s > 0:
            raise ConfigError(f"step_timeout_s must be a positive number of seconds; got {step_timeout_s!r}.")
        self.num_envs = len(env_fns)
        self.kinds = _kinds(env_fns)
        self._pool = make_pool(
            dict(enumerate(env_fns)),
            workers=require_choice("workers", workers, WORKER_KINDS),
            num_workers=None if num_workers is None else require_positive("num_workers", num_workers),
            timeout_s=float(step_timeout_s),
            start_method=require_choice("start_method", start_method, multiprocessing.get_all_start_methods()),
        )
        self._take_spaces(self._pool)
        self._episodes = Episodes(self.num_envs)
        self._resetting: set[int] = set()

    def _take_spaces(self, pool: WorkerPool) -> None:
        """Sets spaces and metadata from the first world, after checking that the others agree."""
        described = pool.describe()
        first = described[0]
        for index, other in sorted(described.items()):
            if other[:2] != first[:2]:
                self.close()
                raise ConfigError(
                    f"All worlds of a VectorWorld must have the same spaces; world {index} has {other[:2]}, world 0 "
                    "has "
                    f"{first[:2]}."
                )
        self.metadata = {**first.metadata, "autoreset_mode": AutoresetMode.DISABLED}
        self.render_mode = first.render_mode
        self.single_observation_space, self.single_action_space = first.observation_space, first.action_space
        # Copies, because a space that occurred N times in the tuple would be seeded N times
        self.observation_space, self.action_space = (
            gym.spaces.Tuple([copy.deepcopy(space) for _ in range(self.num_envs)])
            for space in (first.observation_space, first.action_space)
        )

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, dict[str, Any]]:
        """Starts an episode in every world, or in those of a mask.

        Args:
            seed: One seed per world; an integer s stands for s, s + 1, ..., s + N - 1.
            options: `"reset_mask"`, bool[N], limits the reset to some worlds, the others keep their episode;
                `"levels"`, N level texts or None, makes worlds start from these levels, each as its option
                `"level"`; all other options are passed to each world that is reset.

        Returns:
            The observations of all worlds, and `infos`.

        Raises:
            ConfigError: If the seeds, the levels, or the mask do not fit.
            EpisodeOverError: If a world outside the mask was never reset.
            WorkerError: If a worker was lost; the next reset restarts it.
            Exception: Any exception raised by a world's `reset`.
        """
        mask, calls = self._reset_calls(seed, options)
        failed = self._reset_some(calls)
        for i in sorted(failed):  # only now, so that successful resets are stored first
            if mask[i]:
                failed[i].unwrap()
        return self._episodes.observations(), self._episodes.infos(mask)

    def try_reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, dict[str, Any]]:
        """Starts an episode in every world that can start one: a `reset` for callers that tolerate the loss of worlds.

        Failed resets are retried in restarted workers: first all together, then one by one, so that a world
        that kills its worker every time does not affect others. If a worker cannot be started for a single
        world, all of its worlds are given up. A world that still fails is truncated, with the reason in
        `infos["env"][i]["worker_error"]`; one that never had an observation shows an empty text.

        Args:
            seed: See `reset`.
            options: See `reset`.

        Returns:
            The observations of all worlds, and `infos`.

        Raises:
            ConfigError: If the seeds, the levels, or the mask do not fit.
            EpisodeOverError: If a world outside the mask was never reset.
            LevelError: If a requested level does not exist.
        """
        mask, calls = self._reset_calls(seed, options)
        failed = self._reset_some(calls)
        queue = sorted(self._reset_some({i: calls[i] for i in failed if i in calls})) if failed else []
        given_up: dict[int, CallResult] = {}
        while queue:
            i = queue.pop(0)
            failed = {j: reply for j, reply in self._reset_some({i: calls[i]}).items() if j in calls}
            # Give up the whole worker, not one world at a time: starting it is slow and creates all its
            # worlds
            given_up |= {j: reply for j, reply in failed.items() if j == i or (reply.error is not None and reply.lost)}
            queue = [j for j in dict.fromkeys([*queue, *sorted(failed)]) if j not in given_up]
        for i, reply in given_up.items():
            self._episodes.leave_out(i, reply)
        return self._episodes.observations(), self._episodes.infos(mask)

    def _reset_calls(
        self, seed: int | Sequence[int | None] | None, options: dict[str, Any] | None
    ) -> tuple[Flags, dict[int, Call]]:
        """Returns which worlds are to be reset, and the calls that reset them."""
        super().reset(seed=seed if isinstance(seed, int) else None)
        world_options = {**self._own_options, **(options or {})}
        mask = reset_mask(world_options.pop("reset_mask", None), self.num_envs)
        seeds, levels = reset_seeds(seed, self.num_envs), reset_levels(world_options.pop("levels", None), self.num_envs)
        self._episodes.require_started(~mask)
        return mask, {
            i: Call("reset", (), {"seed": seeds[i], "options": _with_level(world_options, levels[i]) or None})
            for i in np.flatnonzero(mask).tolist()
        }

    @property
    def _own_options(self) -> dict[str, Any]:
        return {"optimal_actions": True} if self.counts_optimal_actions else {}

    def _reset_some(self, calls: Mapping[int, Call]) -> dict[int, CallResult]:
        """Resets some worlds and returns the replies of all worlds that failed, including others of their workers."""
        failed: dict[int, CallResult] = {}
        for i, reply in sorted(self._run(calls).items()):
            if reply.failed:
                failed[i] = reply
                self._episodes.end(i, reply)
            elif i in calls:
                self._episodes.start(i, reply)
        return failed

    def step(self, actions: Actions) -> Steps:
        """Steps every world that is given a response.

        Args:
            actions: One response per world. A world with None is not stepped: it repeats its last observation
                and flags, with reward 0 and empty `reward_terms`.

        Returns:
            Observations, rewards float64[N], terminated bool[N], truncated bool[N], infos.

        Raises:
            ConfigError: If the number of actions is wrong.
            EpisodeOverError: If a world whose episode is over, or never started, is given a response.
        """
        acting = acting_worlds(actions, self.num_envs)
        self._episodes.require_started(np.ones(self.num_envs, np.bool_))
        self._episodes.require_running(acting)
        replies = self._run({i: Call("step", (actions[i],)) for i in np.flatnonzero(acting).tolist()})
        rewards = np.zeros(self.num_envs)
        for i in np.flatnonzero(~acting).tolist():
            self._episodes.wait(i)
        for i, reply in sorted(replies.items()):
            rewards[i] = self._take(i, reply)
        _raise_mistakes(replies)
        terminated, truncated = self._episodes.terminated.copy(), self._episodes.truncated.copy()
        return self._episodes.observations(), rewards, terminated, truncated, self._episodes.infos(acting)

    def send_resets(self, seeds: Mapping[int, int | None], *, levels: Mapping[int, str | None] | None = None) -> None:
        """Starts resetting some worlds without waiting; `recv` returns the results.

        Args:
            seeds: Seeds by number of the world.
            levels: Level texts by number of the world; for other worlds, the seed determines the level.
        """
        pool, levels = self._open_pool(), levels or {}
        self._resetting |= seeds.keys()
        options = {i: _with_level(self._own_options, levels.get(i)) or None for i in seeds}
        pool.send({i: Call("reset", (), {"seed": seed, "options": options[i]}) for i, seed in seeds.items()})

    def send(self, actions: Mapping[int, str]) -> None:
        """Starts stepping some worlds without waiting; `recv` returns the results.

        A world may be stepped again only after its step, or its reset, was received. `step`, `reset`, `call`,
        and `apply` cancel pending steps and resets: episodes of worlds whose step was not received have to be
        reset.

        Args:
            actions: Responses by number of the world.

        Raises:
            EpisodeOverError: If a world's episode is over, or never started.
        """
        acting = np.isin(np.arange(self.num_envs), list(actions))
        self._episodes.require_started(acting)
        self._episodes.require_running(acting)
        self._open_pool().send({i: Call("step", (action,)) for i, action in actions.items()})

    def recv(self, timeout_s: float | None = None) -> dict[int, Step]:
        """Returns finished steps and resets, at least one if any is pending.

        Args:
            timeout_s: Maximum time to wait for the first, in seconds; None for no limit.

        Returns:
            Steps by number of the world. A failed step is truncated, as in `step`; so are worlds that were
            not stepped but were lost together with another world's worker. A reset is a step without a
            reward, truncated if the world could not be started.
        """
        replies = {
            i: reply
            for i, reply in sorted(self._open_pool().recv(timeout_s).items())
            if reply.value is not None or i in self._resetting or self._episodes.is_running(i)
        }
        started = self._resetting & replies.keys()
        self._resetting -= started
        steps = {}
        for i, reply in replies.items():
            if i not in started:
                steps[i] = self._episodes.step(i, self._take(i, reply))
                continue
            if reply.failed:
                self._episodes.leave_out(i, reply)
            else:
                self._episodes.start(i, reply)
            steps[i] = self._episodes.step(i, 0.0)
        _raise_mistakes(replies)
        return steps

    @property
    def awaited(self) -> list[Connection]:
        """Connections on which pending steps and resets will arrive; empty if `recv` itself executes them."""
        return self._open_pool().awaited

    def cancel(self) -> None:
        """Cancels pending steps and resets, as `reset` does: episodes whose step was not received have to be reset."""
        self._resetting.clear()
        self._open_pool().cancel()

    def _take(self, i: int, reply: CallResult) -> float:
        """Continues a world's episode, or ends it if its step failed, and returns the reward."""
        reward = self._episodes.go_on(i, reply) if reply.value is not None else 0.0
        if reply.lost is not None or not isinstance(reply.error, (NoneType, *CALLER_MISTAKES)):
            self._episodes.end(i, reply)
        return reward

    def _run(self, calls: Mapping[int, Call]) -> dict[int, CallResult]:
        self._resetting.clear()
        return run(self._open_pool(), calls)

    def _open_pool(self) -> WorkerPool:
        if self.closed or self._pool is None:
            raise EpisodeOverError("This VectorWorld is closed; create a new one.")
        return self._pool

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Returns the result of a method of each world, or the value of an attribute.

        Args:
            name: Method or attribute, looked up through wrappers.
            *args: Positional arguments of the method.
            **kwargs: Keyword arguments of the method.

        Raises:
            Exception: Any exception raised by a world.
        """
        values = self._values({i: Call(name, args, kwargs) for i in range(self.num_envs)})
        return tuple(values[i] for i in range(self.num_envs))

    def apply(self, functions: Mapping[int, Callable[[Any], Any]]) -> dict[int, Any]:
        """Returns the results of functions of worlds, each called in the world's worker.

        Args:
            functions: By number of the world; each is called with the world without wrappers. Unless
                `workers="serial"`, functions and results must be picklable, and changes to a function's own
                state stay in the worker.

        Raises:
            ConfigError: If a world does not exist, or a value is not callable or cannot be pickled; then none
                is called.
            Exception: Any exception raised by a function.
        """
        for i, function in functions.items():
            if i not in range(self.num_envs) or not callable(function):
                raise ConfigError(
                    f"apply() takes functions by number of the world, from 0 to {self.num_envs - 1}; "
                    f"got {i!r}: {function!r}."
                )
        return self._values({i: Call("apply", function=function) for i, function in functions.items()})

    def _values(self, calls: Mapping[int, Call]) -> dict[int, Any]:
        """Returns the results of calls; the episodes of lost worlds end."""
        replies = self._run(calls)
        for i, reply in replies.items():
            if reply.lost is not None:
                self._episodes.end(i, reply)
        return {i: replies[i].unwrap() for i in sorted(replies)}

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Returns an attribute of each world."""
        return self.call(name)

    def render(self) -> tuple[Any, ...]:
        """Returns the result of each world's `render`."""
        return self.call("render")

    def close_extras(self, **kwargs: Any) -> None:
        """Ends the workers; called by `close`, which may be called repeatedly."""
        if self._pool is not None:
            self._pool.close()

    def __enter__(self) -> VectorWorld:
        """Returns itself; the end of the `with` block closes it."""
        return self

    def __exit__(self, *error: object) -> None:
        """Closes the worlds."""
        self.close()


def _with_level(options: dict[str, Any], level: str | None) -> dict[str, Any]:
    """Returns the options of one world's reset."""
    return options if level is None else {**options, "level": level}


def _raise_mistakes(replies: Mapping[int, CallResult]) -> None:
    """Raises a world's error that was caused by the caller, if there is one."""
    for reply in replies.values():
        if isinstance(reply.error, CALLER_MISTAKES):
            reply.unwrap()


_LONGEST_WAIT_S = 0.5
"""Maximum time between checks whether a worker has exceeded its time limit, in seconds."""


def _kinds(env_fns: Sequence[Callable[[], Any]]) -> tuple[int, ...]:
    """Returns the number of each function's kind: functions that are equal make worlds that are alike."""
    numbers: dict[Hashable, int] = {}
    return tuple(numbers.setdefault(_kind(env_fn), len(numbers)) for env_fn in env_fns)


def _kind(env_fn: Callable[[], Any]) -> Hashable:
    if isinstance(env_fn, functools.partial):
        kind = env_fn.func, env_fn.args, tuple(sorted(env_fn.keywords.items()))
        with suppress(TypeError):  # unhashable arguments: only the same object is of this kind
            hash(kind)
            return kind
    return id(env_fn)


class JoinedWorlds:
    """Several `VectorWorld`s as one, for rollouts in which no world waits for another.

    Worlds are numbered consecutively: those of the first vector come first. Vectors may differ in their
    spaces, in their kinds of workers, and in their time limits.

    Args:
        vectors: The vectors; the caller closes them.
    """

    def __init__(self, vectors: Sequence[VectorWorld]) -> None:
        self.vectors = tuple(vectors)
        *firsts, self.num_envs = itertools.accumulate((vector.num_envs for vector in vectors), initial=0)
        self._numbered = list(zip(firsts, vectors, strict=True))

    def send_resets(self, seeds: Mapping[int, int | None], *, levels: Mapping[int, str | None] | None = None) -> None:
        """Starts resetting some worlds; see `VectorWorld.send_resets`."""
        for first, vector in self._numbered:
            if own := _own(seeds, first, vector):
                vector.send_resets(own, levels=_own(levels or {}, first, vector))

    def send(self, actions: Mapping[int, str]) -> None:
        """Starts stepping some worlds; see `VectorWorld.send`."""
        for first, vector in self._numbered:
            if own := _own(actions, first, vector):
                vector.send(own)

    def recv(self, timeout_s: float | None = None) -> dict[int, Step]:
        """Returns finished steps and resets of any vector; see `VectorWorld.recv`."""
        until = math.inf if timeout_s is None else time.monotonic() + timeout_s
        while True:
            done = {first + i: step for first, vector in self._numbered for i, step in vector.recv(0.0).items()}
            pipes = [pipe for vector in self.vectors for pipe in vector.awaited]
            left_s = until - time.monotonic()
            if done or not pipes or left_s <= 0:
                return done
            connection.wait(pipes, min(left_s, _LONGEST_WAIT_S))

    def try_reset(self, *, seed: Sequence[int | None], options: dict[str, Any]) -> tuple[Observations, dict[str, Any]]:
        """Starts an episode in every world that can start one; see `VectorWorld.try_reset`.

        Args:
            seed: One seed per world.
            options: `"reset_mask"` and `"levels"` of all worlds; any other is passed to each.

        Returns:
            The observations of all worlds, and `infos` with `"env"`; None and empty for vectors without a
            reset.
        """
        observations: list[Any] = []
        infos: list[dict[str, Any]] = []
        for first, vector in self._numbered:
            own = slice(first, first + vector.num_envs)
            of_each = {name: options[name][own] for name in ("reset_mask", "levels") if options.get(name) is not None}
            if not any(of_each.get("reset_mask", (True,))):
                observations.extend([None] * vector.num_envs)
                infos.extend({} for _ in range(vector.num_envs))
                continue
            shown, told = vector.try_reset(seed=seed[own], options={**options, **of_each})
            observations.extend(shown)
            infos.extend(told["env"])
        return tuple(observations), {"env": infos}

    def cancel(self) -> None:
        """Cancels pending steps and resets; see `VectorWorld.cancel`."""
        for vector in self.vectors:
            vector.cancel()


def _own(given: Mapping[int, Any], first: int, vector: VectorWorld) -> dict[int, Any]:
    """Returns the entries that belong to a vector's worlds, with the joined worlds' numbers replaced by its own."""
    return {i - first: value for i, value in given.items() if 0 <= i - first < vector.num_envs}


LOCAL_KINDS = ("serial", "thread", "process")
WORKER_KINDS = (*LOCAL_KINDS, "ray")


def make_pool(
    env_fns: Mapping[int, EnvFn],
    *,
    workers: str,
    num_workers: int | None,
    timeout_s: float,
    start_method: str,
) -> WorkerPool:
    """Returns a pool of the given kind.

    Args:
        env_fns: Functions that create the environments, by index in the batch.
        workers: One of `WORKER_KINDS`.
        num_workers: Number of threads, processes, or actors; None for one per CPU core of the machine, or of
            the cluster.
        timeout_s: Maximum time of a call on one environment, in seconds; serial workers have no timeout.
        start_method: How processes start, as `multiprocessing` names it.

    Raises:
        ConfigError: If an environment function cannot be sent to its worker.
        EngineUnavailableError: If Ray is not available.
        WorkerError: If a worker cannot start.
    """
    if workers == "serial":
        return SerialPool(env_fns)
    if workers == "ray":
        return ray_pool(env_fns, num_workers=num_workers, timeout_s=timeout_s)
    if workers == "process":
        for index, env_fn in env_fns.items():
            pack(
                {index: env_fn}, "environment function", ForkingPickler.dumps
            )  # only a check: a share is pickled as a whole
    shares = shares_of(env_fns, num_workers if num_workers is not None else os.cpu_count() or 1)
    return PipedPool(
        [LocalWorker(env_fns=share, kind=workers, start_method=start_method) for share in shares], timeout_s=timeout_s
    )
