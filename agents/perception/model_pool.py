"""Frozen models in Ray actors, distributed over the machines of a cluster, which share the questions.

    units of questions ── one unit at a time ──> each free actor ──> answers, in the questions' order

Answers do not depend on the number of actors: the caller forms the units. If an actor dies, hangs, or raises on a unit,
its questions are asked again, one by one, of another process. A question that crashes every model thus costs only its
own answer; a question that fails twice is `Unavailable`.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal, NamedTuple

from agents.api.failures import Unavailable
from vlm_envs.errors import EngineUnavailableError, WorkerError
from vlm_envs.validation import require
from vlm_envs.vector.ray_workers import connected_ray, import_paths, last_line, spread_over_machines
from vlm_envs.vector.workers import START_TIMEOUT_S

_NUM_STARTS = 3
"""How many times in a row an actor may die before its models are loaded."""
_WAIT_S = 5.0
"""Longest wait before checking whether the pool was closed, in seconds."""

_logger = logging.getLogger(__name__)

LOAD_TIMEOUT_S = 600.0
"""Time limit for an actor to import its modules and load its models, in seconds."""
_FETCH_TIMEOUT_S = 30.0
"""Time limit for fetching finished answers, whose machine may be lost, in seconds."""

Phase = Literal["down", "starting", "loading", "free", "busy"]


class _Unit(NamedTuple):
    """The indices of questions that are asked together, and whether this is their second attempt."""

    places: tuple[int, ...]
    is_second: bool = False


@dataclass(kw_only=True, eq=False)
class _Asking:
    """Questions, the units still waiting for a worker, and the answers so far."""

    method: str
    questions: Sequence[Any]
    waiting: deque[_Unit]
    answers: list[Any]
    under_way: dict[ModelWorker, _Unit] = field(default_factory=dict)
    num_failures_in_a_row: int = 0

    def failed(self, unit: _Unit, why: str) -> None:
        """Splits a failed unit into single questions, or leaves them unanswered after a second attempt."""
        self.num_failures_in_a_row += 1
        if unit.is_second:
            self.give_up(unit, why)
        else:
            self.waiting.extend(_Unit((index,), is_second=True) for index in unit.places)

    def give_up(self, unit: _Unit, why: str) -> None:
        """Leaves a unit's questions unanswered."""
        for index in unit.places:
            self.answers[index] = Unavailable(why)


class ModelPool:
    """Actors that each load the same models, and are replaced when they are lost.

    Args:
        load: Loads the models, in an actor; pickled by cloudpickle. Each of their methods that is used takes a list of
            questions and returns an answer to each.
        num_workers: Number of actors; None for as many as the cluster has GPUs for, or one if they need none.
        num_gpus: GPUs per actor; a fraction if several share one.
        timeout_s: Time limit per question, in seconds.
        title: Name of the models in messages.

    Raises:
        EngineUnavailableError: If Ray is not installed, no cluster can be reached, or an actor could not load.
        WorkerError: If an actor cannot start.
    """

    def __init__(
        self,
        load: Callable[[], Any],
        *,
        num_workers: int | None,
        num_gpus: float = 0.0,
        timeout_s: float = 60.0,
        title: str = "the models",
    ) -> None:
        self._ray, self._timeout_s, self._title, paths = connected_ray(), timeout_s, title, import_paths()
        require_gpus(self._ray, num_gpus)
        if num_workers is None:
            num_workers = int(self._ray.cluster_resources().get("GPU", 0) / num_gpus + 1e-6) if num_gpus else 1
        self._workers = [
            ModelWorker(load, name=f"Ray worker {number} of {title}", num_gpus=num_gpus, paths=paths)
            for number in range(num_workers)
        ]
        self._lock, self._num_closed = threading.Lock(), 0
        self._num_questions = self._num_unanswered = self._num_lost = 0
        self._start_all()

    def _start_all(self) -> None:
        """Starts all workers and waits until they have loaded; stops all if one cannot."""
        try:
            for worker in self._workers:
                worker.start()
            no_questions = _Asking(method="", questions=(), waiting=deque(), answers=[])
            while starting := [worker for worker in self._workers if worker.phase in ("starting", "loading")]:
                self._settle(starting, no_questions, num_closed=self._num_closed)
                if errors := [worker.error for worker in self._workers if worker.error is not None]:
                    raise errors[0]
        except BaseException:
            self.close()
            raise

    def ask(self, method: str, questions: Sequence[Any], units: Sequence[Sequence[int]]) -> list[Any]:
        """Answers questions.

        Args:
            method: The models' method that answers them.
            questions: The questions.
            units: Indices of the questions that go to an actor together; each index is in one unit.

        Returns:
            An answer to each question, in order. `Unavailable` if it failed twice, and for all remaining questions
            after a series of failures: two per worker, and at least four.

        Raises:
            WorkerError: If no worker is left, or the pool is closed in the meantime.
        """
        with self._lock:
            asking = _Asking(
                method=method,
                questions=questions,
                waiting=deque(_Unit(tuple(unit)) for unit in units),
                answers=[None] * len(questions),
            )
            num_closed = self._num_closed
            try:
                self._ask(asking, num_closed)
            except BaseException as error:
                for worker in self._workers if num_closed != self._num_closed else asking.under_way:
                    worker.stop()
                if num_closed != self._num_closed and isinstance(error, Exception):
                    raise WorkerError(f"The workers of {self._title} were stopped while answering.") from error
                raise
            unanswered = [answer for answer in asking.answers if isinstance(answer, Unavailable)]
            self._num_questions += len(questions)
            self._num_unanswered += len(unanswered)
            if unanswered:
                message = "%d of %d questions to %s have no answer. The last reason: %s"
                _logger.warning(message, len(unanswered), len(questions), self._title, unanswered[-1].reason)
            return asking.answers

    def _ask(self, asking: _Asking, num_closed: int) -> None:
        limit = max(4, 2 * len(self._workers))
        has_left = not self._ray.is_initialized()  # leaving a cluster ends its actors
        for worker in self._workers:
            if has_left:
                worker.stop()
            if worker.phase == "down":
                worker.num_deaths = 0
                self._restart(worker)
        while asking.waiting or asking.under_way:
            self._hand_out(asking)
            active = [worker for worker in self._workers if worker.pending is not None]
            if not active:
                why = str(next((worker.error for worker in self._workers if worker.error is not None), "")).rstrip(".")
                raise WorkerError(
                    f"No worker of {self._title} is left. {why}. Check the cluster (`ray status`), then continue the "
                    "run with --resume."
                )
            self._settle(active, asking, num_closed=num_closed)
            if asking.num_failures_in_a_row >= limit:
                self._give_up(asking)

    def _hand_out(self, asking: _Asking) -> None:
        """Gives every free worker a unit while there are any."""
        for worker in self._workers:
            if asking.waiting and worker.phase == "free":
                unit = asking.waiting.popleft()
                questions = [asking.questions[index] for index in unit.places]
                try:
                    worker.ask(asking.method, questions, self._timeout_s * len(questions))
                except WorkerError as error:
                    asking.waiting.appendleft(unit)
                    self._lost(worker, error)
                else:
                    asking.under_way[worker] = unit

    def _settle(self, active: Sequence[ModelWorker], asking: _Asking, *, num_closed: int) -> None:
        """Waits until a worker has a result or exceeds its time limit, and processes all results."""
        pending = {worker.pending: worker for worker in active}
        wait_s = min(_WAIT_S, max(0.0, min(worker.deadline for worker in active) - time.monotonic()))
        self._ray.wait(list(pending), num_returns=1, timeout=wait_s)
        there, _ = self._ray.wait(list(pending), num_returns=len(pending), timeout=0)  # all that are
        if num_closed != self._num_closed:
            raise WorkerError("The pool was closed.")
        for ref, worker in pending.items():
            if ref in there or worker.deadline <= time.monotonic():
                self._take(worker, asking, is_there=ref in there)

    def _take(self, worker: ModelWorker, asking: _Asking, *, is_there: bool) -> None:
        """Takes a worker's answers, or restarts it if it failed."""
        unit = asking.under_way.pop(worker, None)
        try:
            answers = worker.receive(is_there=is_there)
        except WorkerError as error:
            self._lost(worker, error)
            if unit is not None:
                asking.failed(unit, str(error))
            return
        if unit is not None and answers is not None:
            asking.num_failures_in_a_row = 0
            for index, answer in zip(unit.places, answers, strict=True):
                asking.answers[index] = answer

    def _lost(self, worker: ModelWorker, error: WorkerError) -> None:
        """Restarts a lost worker, unless restarting before the next batch is pointless."""
        _logger.warning("%s", error)
        self._num_lost += 1
        worker.num_deaths += worker.phase != "busy"
        worker.stop(error)
        if not isinstance(error, LoadError) and worker.num_deaths < _NUM_STARTS:
            self._restart(worker)

    def _restart(self, worker: ModelWorker) -> None:
        try:
            worker.start()
        except EngineUnavailableError as error:  # the cluster is gone
            worker.stop(error)

    def _give_up(self, asking: _Asking) -> None:
        """Leaves all remaining questions unanswered."""
        why = f"{asking.num_failures_in_a_row} failures of {self._title} came one after another"
        for unit in chain(asking.waiting, asking.under_way.values()):
            asking.give_up(unit, why)
        for worker in asking.under_way:
            worker.stop()
        asking.waiting.clear()
        asking.under_way.clear()

    def metrics(self) -> dict[str, float]:
        """Returns the numbers of questions, unanswered questions, and lost workers since the start."""
        return {
            "questions": self._num_questions,
            "unanswered": self._num_unanswered,
            "lost_workers": self._num_lost,
        }

    def close(self) -> None:
        """Stops all workers, and ends running calls of other threads; a later call restarts the workers."""
        self._num_closed += 1
        for worker in self._workers:
            worker.stop()


class LoadError(EngineUnavailableError, WorkerError):
    """Models could not be loaded on a worker; the message has the reason."""


def lacking_where_ray_places(directories: Mapping[str, str], *, num_gpus: float) -> tuple[str, list[str]]:
    """Returns a machine on which Ray can place a worker, and the names of directories that are missing there.

    Args:
        directories: Directories by name.
        num_gpus: GPUs that the worker needs.

    Raises:
        EngineUnavailableError: If there is no cluster, or no room on it.
        ConfigError: If the cluster has fewer GPUs.
    """
    ray = connected_ray()
    require_gpus(ray, num_gpus)
    options = {"num_cpus": 0} | _placed(import_paths(), num_gpus)
    asked = ray.remote(_lacking).options(**options).remote(dict(directories))
    try:
        host, lacking = ray.get(asked, timeout=START_TIMEOUT_S)
    except ray.exceptions.RayError as error:
        ray.cancel(asked, force=True)
        why = _no_place(num_gpus) if isinstance(error, ray.exceptions.GetTimeoutError) else last_line(error)
        raise LoadError(f"A Ray worker of the verifier's models could not be started: {why}") from error
    return host, lacking


def require_gpus(ray: Any, num_gpus: float) -> None:
    """Refuses a cluster with fewer GPUs in total than one worker needs, which would wait forever.

    Raises:
        ConfigError: If the cluster has fewer GPUs.
    """
    num_there = ray.cluster_resources().get("GPU", 0)
    require(
        num_there >= num_gpus,
        f"The cluster has no GPU for a worker that needs {num_gpus:g}: it has {num_there:g} in total. Start Ray with "
        "GPUs, and set its address in RAY_ADDRESS; without GPUs leave num_gpus at 0.",
    )


def _lacking(directories: Mapping[str, str]) -> tuple[str, list[str]]:
    import ray

    return ray.util.get_node_ip_address(), [name for name, path in directories.items() if not os.path.isdir(path)]


def _placed(paths: str, num_gpus: float) -> dict[str, Any]:
    """Returns the Ray options of a worker; one with GPUs reserves no CPUs."""
    return spread_over_machines(paths) | ({"num_cpus": 0, "num_gpus": num_gpus} if num_gpus else {})


def _no_place(num_gpus: float) -> str:
    what = f"{num_gpus:g} free GPUs for it" if num_gpus else "a machine with CPUs"
    return f"it was not placed within {START_TIMEOUT_S:g} s. Check with `ray status` that the cluster has {what}."


class ModelActor:
    """Holds models on a machine chosen by Ray. Ray shields its processes from Ctrl-C, which the owner handles."""

    def host(self) -> str:
        """Returns the address of its machine."""
        import ray

        return str(ray.util.get_node_ip_address())

    def load(self, load: Callable[[], Any]) -> None:
        """Loads the models."""
        self._models = load()

    def answer(self, method: str, questions: Sequence[Any]) -> list[Any]:
        """Returns a method's answers to questions, in order."""
        return list(getattr(self._models, method)(questions))


class ModelWorker:
    """An actor with models, on a machine of the cluster that this process is connected to.

    Args:
        load: Loads the models, there.
        name: The worker's name in messages.
        num_gpus: GPUs it needs; a fraction if several workers share one.
        paths: Additional import paths.

    Attributes:
        phase: Its current phase.
        deadline: End of the phase's time limit, in monotonic seconds.
        num_deaths: How many times in a row it died before its models were loaded.
        error: Why it is down, if it failed.
    """

    def __init__(self, load: Callable[[], Any], *, name: str, num_gpus: float, paths: str) -> None:
        self._load, self._name, self._num_gpus, self._paths = load, name, num_gpus, paths
        self._ray: Any = None
        self._actor: Any = None
        self._loaded: Any = None
        self._host = ""
        self.pending: Any = None
        self.phase: Phase = "down"
        self.deadline = 0.0
        self.num_deaths = 0
        self.error: Exception | None = None

    def start(self) -> None:
        """Requests the actor from Ray, without waiting for it.

        Raises:
            EngineUnavailableError: If the cluster is gone.
        """
        self._ray = connected_ray()
        self._actor = self._ray.remote(ModelActor).options(**_placed(self._paths, self._num_gpus)).remote()
        self._host, self.error = "", None
        self._wait_for("starting", self._actor.host.remote(), START_TIMEOUT_S)
        self._loaded = self._actor.load.remote(self._load)

    def ask(self, method: str, questions: Sequence[Any], timeout_s: float) -> None:
        """Submits questions with a time limit in seconds; the worker must be free.

        Raises:
            WorkerError: If its cluster was left.
        """
        try:
            pending = self._actor.answer.remote(method, list(questions))
        except Exception as error:  # an actor unknown to Ray, for which Ray has no exception type
            raise WorkerError(f"{self} is gone: {last_line(error)}") from error
        self._wait_for("busy", pending, timeout_s)

    def receive(self, *, is_there: bool) -> list[Any] | None:
        """Takes the pending result and starts the next phase.

        Args:
            is_there: Whether the result is ready; otherwise the time limit was exceeded.

        Returns:
            The answers to the questions; None if the worker was still starting or loading.

        Raises:
            LoadError: If its models cannot be loaded.
            WorkerError: If it was not placed, died, or hung, or if its models raised.
        """
        value = self._value(is_there=is_there)
        if self.phase == "starting":
            self._host = value
            self._wait_for("loading", self._loaded, LOAD_TIMEOUT_S)
            return None
        answers: list[Any] | None = value if self.phase == "busy" else None
        self.phase, self.pending, self.num_deaths = "free", None, 0
        return answers

    def _value(self, *, is_there: bool) -> Any:
        if not is_there:
            raise (WorkerError if self.phase == "busy" else LoadError)(self._too_late())
        try:
            return self._ray.get(self.pending, timeout=_FETCH_TIMEOUT_S)
        except self._ray.exceptions.RayTaskError as error:  # raised by the worker's own code
            reason = f"{type(error.cause).__name__}: {error.cause}" if error.cause is not None else last_line(error)
            if self.phase == "busy":
                raise WorkerError(f"{self} raised {reason}") from error
            raise LoadError(f"{self} could not load its models: {reason}") from error
        except self._ray.exceptions.RayError as error:
            raise WorkerError(f"{self} died: {last_line(error)}") from error

    def _too_late(self) -> str:
        if self.phase == "starting":
            return f"{self} could not be started: {_no_place(self._num_gpus)}"
        return f"{self} hung {'while it loaded its models' if self.phase == 'loading' else 'in an answer'}."

    def _wait_for(self, phase: Phase, pending: Any, timeout_s: float) -> None:
        self.phase, self.pending, self.deadline = phase, pending, time.monotonic() + timeout_s

    def stop(self, error: Exception | None = None) -> None:
        """Kills the actor, if there is one; `error` is the reason, if any."""
        actor, self._actor, self._loaded, self.pending = self._actor, None, None, None
        self.phase, self.error = "down", error
        # Leaving a cluster has ended its actors; Ray would start a new one for the call
        if actor is not None and self._ray.is_initialized():
            with suppress(Exception):  # an actor of a cluster that was left earlier
                self._ray.kill(actor)

    def __str__(self) -> str:
        """Returns the worker's name and its machine."""
        return self._name + (self._host and f" at {self._host}")
