"""Frozen models in Ray actors, spread over the machines of a cluster, which share out what they are asked.

    units of questions ── a unit at a time ──> each actor that is free ──> answers, in the questions' order

What an answer is does not depend on how many actors there are: units are the caller's. One that an actor dies, hangs or
raises over is asked once more, its questions one by one, of another process. So what no model survives costs its own
answer and no other; what still has none is `Unavailable`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

from agents.api.failures import Unavailable
from agents.perception.model_worker import LoadError, ModelWorker, require_gpus
from vlm_envs.errors import EngineUnavailableError, WorkerError
from vlm_envs.vector.ray_workers import connected_ray, import_paths

_NUM_STARTS = 3
"""How often in a row an actor may die before its models are loaded."""
_WAIT_S = 5.0
"""How long at most until it is looked whether the pool was closed meanwhile."""

_logger = logging.getLogger(__name__)


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
