"""Workers of a vector environment: each owns environments and answers calls on them, directly or over a pipe.

Messages are pickled as a whole; shared-memory arrays are not used, since they cannot represent text.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import pickle
import reprlib
import signal
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from multiprocessing.util import register_after_fork
from typing import Any, NamedTuple

import gymnasium as gym

from vlm_envs.errors import ConfigError, LevelError, WorkerError

EnvFn = Callable[[], gym.Env[Any, Any]]
Dumps = Callable[[Any], bytes | memoryview]
"""Pickles an object, to be unpickled by `pickle.loads` on the other side."""

_logger = logging.getLogger(__name__)


class Call(NamedTuple):
    """A method to call, or an attribute to read, on one environment; or a function to call with it."""

    name: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = {}
    function: Callable[[Any], Any] | None = None


@dataclass(frozen=True)
class PackedEnvFn:
    """A pickled environment function; if it cannot be unpickled in the worker, it fails like any other."""

    content: bytes

    def __call__(self) -> gym.Env[Any, Any]:
        """Returns a new environment."""
        env_fn: EnvFn = pickle.loads(self.content)
        return env_fn()


def pack(values: Mapping[int, Any], what: str, dumps: Dumps) -> dict[int, bytes]:
    """Pickles values for workers one by one, so that one that cannot be unpickled there does not affect others.

    Args:
        values: Values by index of their environment.
        what: Description of the values, for messages.
        dumps: Function that pickles them.

    Raises:
        ConfigError: If one cannot be pickled; then nothing is sent.
    """
    packed = {}
    for index, value in values.items():
        try:
            packed[index] = bytes(dumps(value))
        except Exception as error:  # an object's own `__reduce__` may raise anything
            raise ConfigError(
                f"The {what} of environment {index} cannot be sent to its worker: {type(error).__name__}: {error}. "
                "Use functions defined at the top of a module, such as functools.partial(vlm_envs.make, env_id, ...), "
                "with arguments that can be pickled, or workers='thread' or 'serial'."
            ) from error
    return packed


class EnvDescription(NamedTuple):
    """Description of an environment that exists only in a worker."""

    observation_space: gym.Space[Any]
    action_space: gym.Space[Any]
    metadata: dict[str, Any]
    render_mode: str | None


@dataclass(frozen=True, kw_only=True)
class CallResult:
    """The answer of one environment.

    Attributes:
        value: Return value of the call; None if there is none.
        error: Exception raised by the call, or None.
        traceback: The traceback of `error`, as text, because it cannot be pickled.
        lost: Reason why the environment no longer exists (its worker died or hung), or None. A `value` may
            have arrived before its worker was lost.
    """

    value: Any = None
    error: Exception | None = None
    traceback: str = ""
    lost: str | None = None

    @property
    def failed(self) -> bool:
        """Whether the call raised, or the environment was lost."""
        return self.error is not None or self.lost is not None

    def unwrap(self) -> Any:
        """Returns the value, or raises the error.

        Raises:
            WorkerError: If the worker was lost.
            Exception: The exception raised by the call, caused by a `WorkerError` that contains the worker's
                traceback.
        """
        if self.error is not None:
            raise self.error from WorkerError(f"raised in a worker:\n{self.traceback}")
        if self.lost is not None:
            raise WorkerError(f"{self.lost} It will be restarted; reset its environments again.")
        return self.value


def _failure(error: Exception) -> CallResult:
    return CallResult(error=error, traceback="".join(traceback.format_exception(error)))


class EnvGroup:
    """The environments of one worker.

    Args:
        env_fns: Functions that create the environments, by index in the batch.
    """

    def __init__(self, env_fns: Mapping[int, EnvFn]) -> None:
        self._env_fns = env_fns
        self._broken: set[int] = set()
        self._envs = {index: env_fn() for index, env_fn in env_fns.items()}

    def describe(self) -> dict[int, EnvDescription]:
        """Returns the description of each environment."""
        return {
            index: EnvDescription(env.observation_space, env.action_space, dict(env.metadata), env.render_mode)
            for index, env in self._envs.items()
        }

    def run(self, index: int, call: Call) -> CallResult:
        """Returns the answer of one environment, including any exception raised by the call.

        An environment whose `step` or `reset` fails may be in an inconsistent state, so its next `reset`
        recreates it, unless the error was only a request for a level that does not exist.
        """
        try:
            if call.name == "reset" and index in self._broken:
                self._envs[index] = self._env_fns[index]()
                self._broken.discard(index)
            if call.function is not None:
                return CallResult(value=call.function(self._envs[index].unwrapped))
            attribute = self._envs[index].get_wrapper_attr(call.name)
            return CallResult(value=attribute(*call.args, **call.kwargs) if callable(attribute) else attribute)
        except Exception as error:
            if call.name == "step" or (call.name == "reset" and not isinstance(error, ConfigError | LevelError)):
                self._broken.add(index)
            return _failure(error)

    def run_packed(self, index: int, content: bytes) -> CallResult:
        """Returns the answer to a packed call; if it cannot be unpickled here, the answer is the error."""
        try:
            call: Call = pickle.loads(content)
        except Exception as error:
            return _failure(error)
        return self.run(index, call)

    def close(self) -> None:
        """Closes every environment, even if closing one fails."""
        for index, env in self._envs.items():
            try:
                env.close()
            except Exception:
                _logger.warning("Environment %d could not be closed.", index, exc_info=True)


def _send(pipe: Connection, index: int, reply: CallResult, dumps: Dumps) -> None:
    """Sends a reply or, if it cannot be pickled, the reason."""
    if reply.error is not None:
        try:
            pickle.loads(dumps(reply.error))
        except Exception:
            reply = replace(reply, error=WorkerError(f"{type(reply.error).__name__}: {reply.error}"))
    try:
        content = dumps((index, reply))
    except Exception as error:  # an object's own `__reduce__` may raise anything
        content = dumps((index, _failure(WorkerError(f"The answer cannot be pickled: {error}"))))
    pipe.send_bytes(content)


def serve(pipe: Connection, env_fns: Mapping[int, EnvFn], dumps: Dumps = ForkingPickler.dumps) -> None:
    """Serves environments over a pipe until it is closed; runs in the worker.

    First sends the descriptions (index -1), then receives packed calls and sends an `(index, CallResult)` for
    each, pickled by `dumps`.
    """
    try:
        try:
            group = EnvGroup(env_fns)
        except Exception as error:
            _send(pipe, -1, _failure(error), dumps)
            return
        try:
            _send(pipe, -1, CallResult(value=group.describe()), dumps)
            while True:
                for index, content in pipe.recv().items():
                    _send(pipe, index, group.run_packed(index, content), dumps)
        finally:
            group.close()
    except (EOFError, OSError):
        pass  # the owner has closed its end, which stops the worker
    finally:
        pipe.close()


START_TIMEOUT_S = 120.0
"""Maximum time in seconds for a worker to import its modules and create its environments."""

STOP_TIMEOUT_S = 2.0
"""Maximum time in seconds for a worker that is asked to stop to close its environments."""


def named_environments(indices: Iterable[int]) -> str:
    """Returns the name of a worker's environments for messages: all indices if there are few, else the first ones."""
    return f"environments {reprlib.repr(sorted(indices))}"


@dataclass(kw_only=True, eq=False)
class PipedWorker(ABC):
    """A worker that serves some of the environments.

    Attributes:
        env_fns: Functions that create the environments, by index in the batch.
        unanswered: Indices of environments whose reply is pending.
        deadline: Monotonic time in seconds by which the next reply must arrive.
        pipe: Connection for calls and replies; None while the worker is stopped.
    """

    env_fns: Mapping[int, EnvFn]
    unanswered: set[int] = field(default_factory=set)
    deadline: float = 0.0
    pipe: Connection | None = None
    _descriptions: dict[int, EnvDescription] | None = None
    _queued: dict[int, bytes] = field(default_factory=dict)

    @abstractmethod
    def start(self) -> None:
        """Starts the worker without waiting for it."""

    @abstractmethod
    def stop(self, *, kill: bool = False) -> None:
        """Asks the worker to stop, or kills it."""

    @abstractmethod
    def _connect(self) -> Connection:
        """Returns the pipe to the worker, starting it if it is stopped.

        Raises:
            WorkerError: If the worker cannot be reached.
        """

    def _hang_up(self) -> None:
        """Closes the pipe and drops everything queued for or received from it."""
        if self.pipe is not None:
            self.pipe.close()
        self.pipe = self._descriptions = None
        self.unanswered, self._queued = set(), {}

    def ready(self) -> dict[int, EnvDescription]:
        """Returns the descriptions once the environments exist, starting the worker if it is stopped.

        Raises:
            WorkerError: If the worker dies or exceeds `START_TIMEOUT_S` while it starts.
            Exception: Any exception raised in creating an environment.
        """
        if self.pipe is not None and self._descriptions is not None:
            return self._descriptions
        try:
            self.pipe = self._connect()
            if not self.pipe.poll(START_TIMEOUT_S):
                raise WorkerError(f"{self} did not create its environments within {START_TIMEOUT_S} s.")
            described: CallResult = self.pipe.recv()[1]
        except (EOFError, OSError) as error:
            self.stop(kill=True)
            raise WorkerError(
                f"{self} died while it created its environments. Check the world's engine and the machine's memory; "
                "a script that starts processes needs an `if __name__ == '__main__':` guard."
            ) from error
        except Exception:
            self.stop(kill=True)
            raise
        if described.error is not None:  # may be an OSError raised by the environment itself
            self.stop(kill=True)
        self._descriptions = described.unwrap()
        assert self._descriptions is not None
        return self._descriptions

    def send(self, calls: Mapping[int, bytes], timeout_s: float) -> None:
        """Sends packed calls; for a busy worker, once it has answered the earlier ones.

        A worker that is already dead is noticed when its replies are awaited.
        """
        if self.unanswered:  # otherwise both ends of the pipe could wait for the other to read
            self._queued.update(calls)
            return
        assert self.pipe is not None
        self.unanswered = set(calls)
        self.deadline = time.monotonic() + timeout_s
        try:
            self.pipe.send(calls)
        except OSError:
            self.deadline = time.monotonic()

    @property
    def has_answered(self) -> bool:
        """Whether a reply is available, or the pipe shows that none will arrive."""
        return self.pipe is not None and self.pipe.poll()

    def receive(self, timeout_s: float) -> tuple[int, CallResult]:
        """Returns the next reply, and restarts the time limit for the following one."""
        assert self.pipe is not None
        index, reply = self.pipe.recv()
        self.unanswered.discard(index)
        self.deadline = time.monotonic() + timeout_s
        if self._queued and not self.unanswered:
            queued, self._queued = self._queued, {}
            self.send(queued, timeout_s)
        return index, reply


_starting = threading.RLock()
"""Held while a worker is started: a process forked by another thread in between would inherit ends of its pipe."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_starting._at_fork_reinit)  # type: ignore[attr-defined]


def _serve_in_process(pipe: Connection, env_fns: Mapping[int, EnvFn], environ: Mapping[str, str]) -> None:
    """Serves in a process, ignoring Ctrl-C: the owner handles it and then closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.update(environ)  # a fork server has the variables from when it was started
    serve(pipe, env_fns)


def _pipe() -> tuple[Connection, Connection]:
    """Returns the owner's end of a new pipe and the worker's.

    A forked process would inherit the owner's ends of its own and all earlier pipes. While it held them, no
    worker would notice that the owner has closed its end or has exited.
    """
    near_end, far_end = multiprocessing.Pipe()
    register_after_fork(near_end, Connection.close)
    return near_end, far_end


@dataclass(kw_only=True, eq=False)
class LocalWorker(PipedWorker):
    """A thread or process that serves some of the environments.

    Attributes:
        kind: `"thread"` or `"process"`.
        start_method: How processes start.
    """

    kind: str
    start_method: str
    _carrier: BaseProcess | threading.Thread | None = None

    def start(self) -> None:
        """Starts the thread or process without waiting for it."""
        self._hang_up()
        with _starting:
            self.pipe, far_end = _pipe()
            if self.kind == "thread":
                register_after_fork(far_end, Connection.close)  # a thread's end is inherited by forks, too
                thread = threading.Thread(target=serve, args=(far_end, self.env_fns), daemon=True)
                thread.start()
                self._carrier = thread
                return
            context: Any = multiprocessing.get_context(self.start_method)
            process = context.Process(
                target=_serve_in_process, args=(far_end, self.env_fns, dict(os.environ)), daemon=True
            )
            process.start()
            self._carrier = process
            far_end.close()  # so that the worker's death is seen as the end of the pipe

    def stop(self, *, kill: bool = False) -> None:
        """Asks the worker to stop, or kills it; a thread cannot be killed and is abandoned."""
        carrier, self._carrier = self._carrier, None
        self._hang_up()
        if carrier is not None:
            carrier.join(0.0 if kill else STOP_TIMEOUT_S)
        if isinstance(carrier, BaseProcess):
            if carrier.is_alive():
                carrier.kill()
            carrier.join()
            carrier.close()

    def _connect(self) -> Connection:
        """Returns the pipe, which is available as soon as the worker is started."""
        if self.pipe is None:
            self.start()
        assert self.pipe is not None
        return self.pipe

    def __str__(self) -> str:
        """Names the worker by its environments."""
        return f"The {self.kind} worker of {named_environments(self.env_fns)}"
