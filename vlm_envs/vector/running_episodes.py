"""The running episodes of a vector environment, and the arguments of its `reset` and `step`."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vlm_envs.errors import ConfigError, EpisodeOverError, LevelError
from vlm_envs.trajectory import Observation
from vlm_envs.vector.workers import CallResult

Observations = tuple[Observation, ...]
Flags = npt.NDArray[np.bool_]

CALLER_MISTAKES = (ConfigError, EpisodeOverError, LevelError)
"""Exceptions of a world that are raised to the caller, since they do not end an episode."""

_NOTHING_DONE: Mapping[str, Any] = {
    "actions": (),
    "action_valid": False,
    "action_effective": False,
    "actions_read": False,
    "format_correct": False,
    "parse_error": None,
    "unread": "",
}
_logger = logging.getLogger(__name__)


class Step(NamedTuple):
    """The result of a step of one world, as `gymnasium.Env.step` returns it."""

    observation: Observation
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


class Episodes:
    """The running episodes of N worlds; initially none has started.

    Args:
        num_envs: Number of worlds.

    Attributes:
        terminated: bool[N].
        truncated: bool[N].
    """

    def __init__(self, num_envs: int) -> None:
        self.terminated = np.zeros(num_envs, np.bool_)
        self.truncated = np.zeros(num_envs, np.bool_)
        self._observations: list[Observation | None] = [None] * num_envs
        self._infos: list[dict[str, Any]] = [{} for _ in range(num_envs)]

    def start(self, i: int, reply: CallResult) -> None:
        """Stores the result of a world's `reset`."""
        self._observations[i], self._infos[i] = reply.value
        self.terminated[i] = self.truncated[i] = False

    def go_on(self, i: int, reply: CallResult) -> float:
        """Stores the result of a world's `step`, and returns the reward."""
        self._observations[i], reward, self.terminated[i], self.truncated[i], self._infos[i] = reply.value
        return float(reward)

    def wait(self, i: int) -> None:
        """Records that a world was not stepped: it repeats its last observation and earns nothing."""
        self._infos[i] = {**self._infos[i], "reward_terms": {}}

    def end(self, i: int, reply: CallResult) -> None:
        """Truncates the running episode of a world that can no longer be stepped."""
        if self.terminated[i] or self.truncated[i] or self._observations[i] is None:
            return
        reason = _reason(reply)
        _logger.warning("Environment %d ends its episode: %s", i, reply.traceback or reason)
        self.truncated[i] = True
        done = {} if reply.value is not None else {**_NOTHING_DONE, "reward_terms": {}}
        self._infos[i] = {**self._infos[i], **done, "success": False, "worker_error": reason}

    def leave_out(self, i: int, reply: CallResult) -> None:
        """Marks a world that could not be reset as over; raises errors caused by the caller."""
        if isinstance(reply.error, CALLER_MISTAKES):
            reply.unwrap()
        if self._observations[i] is None:
            self._observations[i] = {"text": ""}
        self.terminated[i], self.truncated[i] = False, True
        nothing = {**_NOTHING_DONE, "reward_terms": {}, "success": False}
        self._infos[i] = {**self._infos[i], **nothing, "worker_error": _reason(reply)}

    def require_started(self, which: Flags) -> None:
        """Rejects worlds that were never reset.

        Raises:
            EpisodeOverError: If there is one.
        """
        for i in np.flatnonzero(which).tolist():
            if self._observations[i] is None:
                raise EpisodeOverError(f"Environment {i} was never reset; call reset(seed=...) without a mask first.")

    def require_running(self, acting: Flags) -> None:
        """Rejects steps of worlds whose episode is over.

        Raises:
            EpisodeOverError: If there is one.
        """
        over = np.flatnonzero(acting & (self.terminated | self.truncated))
        if over.size:
            raise EpisodeOverError(
                f"The episode of environment {over[0]} is over; give None as its action, or reset it with "
                "reset(options={'reset_mask': ...}) before the next step()."
            )

    def is_running(self, i: int) -> bool:
        """Returns whether a world has an episode that is not over."""
        return self._observations[i] is not None and not (self.terminated[i] or self.truncated[i])

    def step(self, i: int, reward: float) -> Step:
        """Returns a world's last observation, flags, and info, with the given reward."""
        observation = self._observations[i]
        assert observation is not None, "it was never reset"
        return Step(observation, reward, bool(self.terminated[i]), bool(self.truncated[i]), self._infos[i])

    def observations(self) -> Observations:
        """Returns the last observation of every world."""
        return tuple(observation for observation in self._observations if observation is not None)

    def infos(self, acting: Flags) -> dict[str, Any]:
        """Returns `infos` in the form that `VectorWorld` describes."""
        env_infos = np.empty(len(self._infos), dtype=object)
        env_infos[:] = self._infos
        infos: dict[str, Any] = {"env": env_infos, "_env": acting.copy()}
        for key in ("success", "format_correct"):
            infos[key] = np.array([bool(info.get(key, False)) for info in self._infos], np.bool_)
            infos[f"_{key}"] = acting.copy()
        return infos


def _reason(reply: CallResult) -> str:
    """Returns the reason why a call failed, on one line."""
    return reply.lost or f"{type(reply.error).__name__}: {reply.error}"


def reset_mask(mask: Any, num_envs: int) -> Flags:
    """Returns which worlds are to be reset, bool[N]; None stands for all.

    Raises:
        ConfigError: If the mask is not valid.
    """
    if mask is None:
        return np.ones(num_envs, np.bool_)
    array = np.asarray(mask)
    if array.dtype != np.bool_ or array.shape != (num_envs,) or not array.any():
        raise ConfigError(f"options['reset_mask'] must be bool[{num_envs}] with at least one True; got {mask!r}.")
    return array


def reset_seeds(seed: int | Sequence[int | None] | None, num_envs: int) -> list[int | None]:
    """Returns one seed per world; an integer s stands for s, s + 1, ..., s + N - 1.

    Raises:
        ConfigError: If the number of seeds is wrong.
    """
    if seed is None:
        return [None] * num_envs
    if isinstance(seed, int | np.integer):
        return [int(seed) + i for i in range(num_envs)]
    if len(seed) != num_envs:
        raise ConfigError(f"seed must be an integer or {num_envs} seeds, one per world; got {len(seed)}.")
    return [None if one is None else int(one) for one in seed]


def reset_levels(levels: Any, num_envs: int) -> list[str | None]:
    """Returns one level text per world, or None if the seed determines the level; None stands for that in every world.

    Raises:
        ConfigError: If the number of levels is wrong.
    """
    if levels is None:
        return [None] * num_envs
    is_listed = isinstance(levels, list | tuple) and all(isinstance(level, str | None) for level in levels)
    if not is_listed or len(levels) != num_envs:
        got = f"{len(levels)} of them" if is_listed else repr(levels)
        raise ConfigError(f"options['levels'] must be {num_envs} level texts or None, one per world; got {got:.200}.")
    return list(levels)


def acting_worlds(actions: Sequence[str | None], num_envs: int) -> Flags:
    """Returns which worlds are given a response, bool[N].

    Raises:
        ConfigError: If the number of actions is wrong.
    """
    if isinstance(actions, str) or len(actions) != num_envs:
        got = "one string" if isinstance(actions, str) else f"{len(actions)} actions"
        raise ConfigError(f"step() takes {num_envs} responses, one per world; got {got}.")
    return np.array([action is not None for action in actions], np.bool_)
