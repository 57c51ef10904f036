"""A Ray actor that holds frozen models, and its owner's side."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

from vlm_envs.errors import EngineUnavailableError, WorkerError
from vlm_envs.validation import require
from vlm_envs.vector.ray_workers import connected_ray, import_paths, last_line, spread_over_machines
from vlm_envs.vector.workers import START_TIMEOUT_S

LOAD_TIMEOUT_S = 600.0
"""How long an actor may take to import its modules and load its models, in seconds."""
_FETCH_TIMEOUT_S = 30.0
"""How long answers that are there may take to come here: their machine may be gone meanwhile."""

Phase = Literal["down", "starting", "loading", "free", "busy"]


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
