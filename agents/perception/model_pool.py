"""Frozen models in Ray actors, spread over the machines of a cluster, which share out what they are asked.

    units of questions ── a unit at a time ──> each actor that is free ──> answers, in the questions' order

What an answer is does not depend on how many actors there are: units are the caller's. One that an actor dies,
hangs or raises over is asked once more, its questions one by one, of another process. So what no model survives
costs its own answer and no other; what still has none is `Unavailable`.
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
"""How often in a row an actor may die before its models are loaded."""
_WAIT_S = 5.0
"""How long at most until it is looked whether the pool was closed meanwhile."""

_logger = logging.getLogger(__name__)

LOAD_TIMEOUT_S = 600.0
"""How long an actor may take to import its modules and load its models, in seconds."""
_FETCH_TIMEOUT_S = 30.0
"""How long answers that are there may take to come here: their machine may be gone meanwhile."""

Phase = Literal["down", "starting", "loading", "free", "busy"]


class _Unit(NamedTuple):
    """The numbers of questions that are asked together, and whether it is for the second time."""

    places: tuple[int, ...]
    is_second: bool = False


@dataclass(kw_only=True, eq=False)
class _Asking:
    """What is asked, what of it still waits for a worker, and what was answered."""

    method: str
    questions: Sequence[Any]
    waiting: deque[_Unit]
    answers: list[Any]
    under_way: dict[ModelWorker, _Unit] = field(default_factory=dict)
    num_failures_in_a_row: int = 0

    def failed(self, unit: _Unit, why: str) -> None:
        """Has a unit's questions asked one by one, or leaves them without an answer."""
        self.num_failures_in_a_row += 1
        if unit.is_second:
            self.give_up(unit, why)
        else:
            self.waiting.extend(_Unit((place,), is_second=True) for place in unit.places)

    def give_up(self, unit: _Unit, why: str) -> None:
        """Leaves a unit's questions without an answer."""
        for place in unit.places:
            self.answers[place] = Unavailable(why)


class ModelPool:
    """Actors that each load the same models, and are replaced when they are lost.

    Args:
        load: Loads the models, in an actor; pickled by cloudpickle. Each of their methods that is asked takes a list of
            questions and returns an answer to each.
        num_workers: Actors; None for as many as the cluster has GPUs for, or one if they need none.
        num_gpus: GPUs of each; a part of one, if several share it.
        timeout_s: Longest time that one question may take, in seconds.
        title: What messages call the models.

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
        """Starts every worker and waits until it has loaded; ends all if one cannot."""
        try:
            for worker in self._workers:
                worker.start()
            nobody = _Asking(method="", questions=(), waiting=deque(), answers=[])
            while starting := [each for each in self._workers if each.phase in ("starting", "loading")]:
                self._settle(starting, nobody, num_closed=self._num_closed)
                if errors := [each.error for each in self._workers if each.error is not None]:
                    raise errors[0]
        except BaseException:
            self.close()
            raise

    def ask(self, method: str, questions: Sequence[Any], units: Sequence[Sequence[int]]) -> list[Any]:
        """Has questions answered.

        Args:
            method: The models' method that answers them.
            questions: What is asked.
            units: Which questions are put to an actor together, by their numbers: each in one of them.

        Returns:
            An answer to each question, in order. `Unavailable` where it failed twice; and where as many failures as two
            for each worker, and at least four, came one after another, all that was still to be asked.

        Raises:
            WorkerError: If no worker can be had any more, or the pool is closed while it is asked.
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
                    raise WorkerError(f"The workers of {self._title} were ended while they were asked.") from error
                raise
            unanswered = [each for each in asking.answers if isinstance(each, Unavailable)]
            self._num_questions += len(questions)
            self._num_unanswered += len(unanswered)
            if unanswered:
                told = "%d of %d questions to %s have no answer. The last reason: %s"
                _logger.warning(told, len(unanswered), len(questions), self._title, unanswered[-1].reason)
            return asking.answers

    def _ask(self, asking: _Asking, num_closed: int) -> None:
        limit = max(4, 2 * len(self._workers))
        has_left = not self._ray.is_initialized()  # with which its actors are gone
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
                why = str(next((each.error for each in self._workers if each.error is not None), "")).rstrip(".")
                raise WorkerError(
                    f"No worker of {self._title} can be had any more. {why}. Look after the cluster (`ray status`), "
                    "then go on with --resume."
                )
            self._settle(active, asking, num_closed=num_closed)
            if asking.num_failures_in_a_row >= limit:
                self._give_up(asking)

    def _hand_out(self, asking: _Asking) -> None:
        """Gives every free worker a unit, as long as any is left."""
        for worker in self._workers:
            if asking.waiting and worker.phase == "free":
                unit = asking.waiting.popleft()
                questions = [asking.questions[place] for place in unit.places]
                try:
                    worker.ask(asking.method, questions, self._timeout_s * len(questions))
                except WorkerError as error:
                    asking.waiting.appendleft(unit)
                    self._lost(worker, error)
                else:
                    asking.under_way[worker] = unit

    def _settle(self, active: Sequence[ModelWorker], asking: _Asking, *, num_closed: int) -> None:
        """Waits until something has come of what workers are about, or is over its time, and takes it."""
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
        """Takes a worker's answers, or starts it anew if it has none to give."""
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
            for place, answer in zip(unit.places, answers, strict=True):
                asking.answers[place] = answer

    def _lost(self, worker: ModelWorker, error: WorkerError) -> None:
        """Starts a lost worker anew, unless there is no sense in it before the next batch."""
        _logger.warning("%s", error)
        self._num_lost += 1
        worker.num_deaths += worker.phase != "busy"
        worker.stop(error)
        if not isinstance(error, LoadError) and worker.num_deaths < _NUM_STARTS:
            self._restart(worker)

    def _restart(self, worker: ModelWorker) -> None:
        try:
            worker.start()
        except EngineUnavailableError as error:  # there is no cluster any more
            worker.stop(error)

    def _give_up(self, asking: _Asking) -> None:
        """Leaves everything that was still to be asked without an answer."""
        why = f"{asking.num_failures_in_a_row} failures of {self._title} came one after another"
        for unit in chain(asking.waiting, asking.under_way.values()):
            asking.give_up(unit, why)
        for worker in asking.under_way:
            worker.stop()
        asking.waiting.clear()
        asking.under_way.clear()

    def metrics(self) -> dict[str, float]:
        """Returns what was asked, what was left without an answer, and how often a worker was lost, since the start."""
        return {
            "questions": self._num_questions,
            "unanswered": self._num_unanswered,
            "lost_workers": self._num_lost,
        }

    def close(self) -> None:
        """Ends every worker, and what another thread is asking; whoever asks later starts them anew."""
        self._num_closed += 1
        for worker in self._workers:
            worker.stop()


class LoadError(EngineUnavailableError, WorkerError):
    """Models could not be loaded where they were to be: the message says why."""


def lacking_where_ray_places(directories: Mapping[str, str], *, num_gpus: float) -> tuple[str, list[str]]:
    """Returns a machine that Ray has a place on for a worker, and the names of directories that it lacks.

    Args:
        directories: By their names.
        num_gpus: What the worker needs.

    Raises:
        EngineUnavailableError: If there is no cluster, or no place.
        ConfigError: If the cluster has fewer GPUs than that.
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
    """Refuses a cluster that has fewer GPUs in all than one worker needs, which would wait for them in vain.

    Raises:
        ConfigError: If it has.
    """
    num_there = ray.cluster_resources().get("GPU", 0)
    require(
        num_there >= num_gpus,
        f"The cluster has no GPU for a worker that needs {num_gpus:g}: there are {num_there:g} in all. Start Ray where "
        "there are some, and name it in RAY_ADDRESS; without a GPU leave num_gpus at 0.",
    )


def _lacking(directories: Mapping[str, str]) -> tuple[str, list[str]]:
    import ray

    return ray.util.get_node_ip_address(), [name for name, path in directories.items() if not os.path.isdir(path)]


def _placed(paths: str, num_gpus: float) -> dict[str, Any]:
    """Returns the options of a worker: who needs a part of a machine must say that it is not a CPU for as long."""
    return spread_over_machines(paths) | ({"num_cpus": 0, "num_gpus": num_gpus} if num_gpus else {})


def _no_place(num_gpus: float) -> str:
    what = f"{num_gpus:g} free GPUs for it" if num_gpus else "a machine with CPUs"
    return f"it was given no place within {START_TIMEOUT_S:g} s. `ray status` tells whether the cluster has {what}."


class ModelActor:
    """Holds models on whichever machine Ray chooses. Ray keeps Ctrl-C from its processes: it is left to the owner."""

    def host(self) -> str:
        """Returns the address of its machine."""
        import ray

        return str(ray.util.get_node_ip_address())

    def load(self, load: Callable[[], Any]) -> None:
        """Loads the models."""
        self._models = load()

    def answer(self, method: str, questions: Sequence[Any]) -> list[Any]:
        """Returns what a method of the models says to questions, in order."""
        return list(getattr(self._models, method)(questions))


class ModelWorker:
    """An actor with models, on a machine of the cluster that this process is connected to.

    Args:
        load: Loads the models, there.
        name: What messages call the worker.
        num_gpus: What it needs of its machine's GPUs; a part of one, if several share it.
        paths: Where it finds modules, besides where Python looks anyway.

    Attributes:
        phase: What it is about.
        deadline: Monotonic time in seconds until which that may last.
        num_deaths: How often in a row it died before its models were loaded.
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
        """Asks Ray for the actor, without waiting for it.

        Raises:
            EngineUnavailableError: If there is no cluster any more.
        """
        self._ray = connected_ray()
        self._actor = self._ray.remote(ModelActor).options(**_placed(self._paths, self._num_gpus)).remote()
        self._host, self.error = "", None
        self._wait_for("starting", self._actor.host.remote(), START_TIMEOUT_S)
        self._loaded = self._actor.load.remote(self._load)

    def ask(self, method: str, questions: Sequence[Any], timeout_s: float) -> None:
        """Begins to have questions answered, within a time in seconds; the worker must be free.

        Raises:
            WorkerError: If it is of a cluster that was left.
        """
        try:
            pending = self._actor.answer.remote(method, list(questions))
        except Exception as error:  # Ray knows it no more, and has no type for that
            raise WorkerError(f"{self} is gone: {last_line(error)}") from error
        self._wait_for("busy", pending, timeout_s)

    def receive(self, *, is_there: bool) -> list[Any] | None:
        """Takes what was waited for and goes on to the next phase.

        Args:
            is_there: Whether it is there; otherwise its time is over.

        Returns:
            The answers to what was asked; None where the worker has only come one step nearer to being free.

        Raises:
            LoadError: If its models cannot be loaded.
            WorkerError: If it was given no place, died, hung, or if its models raised.
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
        except self._ray.exceptions.RayTaskError as error:  # what its own code raised
            told = f"{type(error.cause).__name__}: {error.cause}" if error.cause is not None else last_line(error)
            if self.phase == "busy":
                raise WorkerError(f"{self} raised {told}") from error
            raise LoadError(f"{self} could not load its models: {told}") from error
        except self._ray.exceptions.RayError as error:
            raise WorkerError(f"{self} died: {last_line(error)}") from error

    def _too_late(self) -> str:
        if self.phase == "starting":
            return f"{self} could not be started: {_no_place(self._num_gpus)}"
        return f"{self} hung {'while it loaded its models' if self.phase == 'loading' else 'in an answer'}."

    def _wait_for(self, phase: Phase, pending: Any, timeout_s: float) -> None:
        self.phase, self.pending, self.deadline = phase, pending, time.monotonic() + timeout_s

    def stop(self, error: Exception | None = None) -> None:
        """Kills the actor, if there is one; the worker is down then, because of an error or of none."""
        actor, self._actor, self._loaded, self.pending = self._actor, None, None, None
        self.phase, self.error = "down", error
        # Whoever has left the cluster has ended its actors; Ray would start another one to be asked
        if actor is not None and self._ray.is_initialized():
            with suppress(Exception):  # an actor of a cluster that was left before
                self._ray.kill(actor)

    def __str__(self) -> str:
        """Names the worker, and where it is."""
        return self._name + (self._host and f" at {self._host}")
