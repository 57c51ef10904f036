"""What a worker does: it owns environments and answers calls on them, over a pipe or directly.

A message is pickled whole; nothing is squeezed into shared-memory arrays, which have no form for text.
"""

from __future__ import annotations

import logging
import pickle
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any, NamedTuple

import gymnasium as gym

from vlm_envs.errors import ConfigError, LevelError, WorkerError

EnvFn = Callable[[], gym.Env[Any, Any]]
Dumps = Callable[[Any], bytes | memoryview]
"""Pickles an object, for `pickle.loads` on the other side."""

_logger = logging.getLogger(__name__)


class Call(NamedTuple):
    """A method to call, or an attribute to read, on one environment; or a function to call with it."""

    name: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = {}
    function: Callable[[Any], Any] | None = None


def pack_calls(calls: Mapping[int, Call], dumps: Dumps = ForkingPickler.dumps) -> dict[int, bytes]:
    """Returns calls as they are sent, one by one, so that one that cannot be read in the worker spoils no other.

    Args:
        calls: By index of their environment.
        dumps: What pickles them.

    Raises:
        ConfigError: If a call cannot be pickled; nothing has been sent then.
    """
    packed = {}
    for index, call in calls.items():
        try:
            packed[index] = bytes(dumps(call))
        except Exception as error:  # an object's own `__reduce__` may raise anything
            what = "function" if call.function is not None else f"call of {call.name!r}"
            raise ConfigError(
                f"The {what} for environment {index} cannot be sent to its worker: {type(error).__name__}: {error}. "
                "Use a function defined at the top of a module and arguments that can be pickled, or workers='serial'."
            ) from error
    return packed


@dataclass(frozen=True, kw_only=True)
class EnvDescription:
    """What the owner of the workers knows of an environment without holding it."""

    observation_space: gym.Space[Any]
    action_space: gym.Space[Any]
    metadata: dict[str, Any]
    render_mode: str | None


@dataclass(frozen=True, kw_only=True)
class CallResult:
    """The answer of one environment.

    Attributes:
        value: What the call returned; None when nothing came back.
        error: What the call raised, or None.
        traceback: The traceback of `error`, as text, because a pipe does not carry it.
        lost: Why the environment no longer exists (its worker died or hung), or None. A `value` can have
            arrived before its worker was lost.
    """

    value: Any = None
    error: Exception | None = None
    traceback: str = ""
    lost: str | None = None

    @property
    def never_started(self) -> bool:
        """Whether there was no worker that could have been called: what started it failed, or hung."""
        return self.lost is not None and self.error is not None

    def unwrap(self) -> Any:
        """Returns the value, or raises what came instead of it.

        Raises:
            WorkerError: If the worker was lost.
            Exception: What the call raised, caused by a `WorkerError` that carries the worker's traceback.
        """
        if self.error is not None:
            raise self.error from WorkerError(f"raised in a worker:\n{self.traceback}")
        if self.lost is not None:
            raise WorkerError(f"{self.lost} It is started anew; reset its environments again.")
        return self.value


def _failure(error: Exception) -> CallResult:
    return CallResult(error=error, traceback="".join(traceback.format_exception(error)))


class EnvGroup:
    """The environments of one worker.

    Args:
        env_fns: What makes each environment, by its index in the batch.
    """

    def __init__(self, env_fns: Mapping[int, EnvFn]) -> None:
        self._env_fns = env_fns
        self._broken: set[int] = set()
        self._envs = {index: env_fn() for index, env_fn in env_fns.items()}

    def describe(self) -> dict[int, EnvDescription]:
        """Returns the description of each environment."""
        return {
            index: EnvDescription(
                observation_space=env.observation_space,
                action_space=env.action_space,
                metadata=dict(env.metadata),
                render_mode=env.render_mode,
            )
            for index, env in self._envs.items()
        }

    def run(self, index: int, call: Call) -> CallResult:
        """Returns the answer of one environment; whatever the call raises is in it.

        An environment whose `step` or `reset` fails may be left half changed, so its next `reset` makes it anew; not so
        one that was merely asked for a level that does not exist.
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
        """Returns the answer to a packed call; one that cannot be unpacked here is answered with the reason."""
        try:
            call: Call = pickle.loads(content)
        except Exception as error:
            return _failure(error)
        return self.run(index, call)

    def close(self) -> None:
        """Closes every environment; one that cannot close does not keep the others open."""
        for index, env in self._envs.items():
            try:
                env.close()
            except Exception:
                _logger.warning("Environment %d could not be closed.", index, exc_info=True)


def _send(pipe: Connection, index: int, reply: CallResult, dumps: Dumps) -> None:
    """Sends a reply, or says why its parts cannot be sent."""
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

    The pipe first gives the descriptions (index -1), then takes what `pack_calls` makes and gives `(index, CallResult)`
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
        pass  # the owner has closed its end, which is how a worker is told to stop
    finally:
        pipe.close()
