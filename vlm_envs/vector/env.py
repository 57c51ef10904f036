"""A Gymnasium vector environment that keeps text intact and survives the loss of a worker.

Gymnasium's own vector environments batch observations into arrays, for which free text has no form.
`VectorWorld` keeps each world's observation as it is and batches only numbers and flags.
"""

from __future__ import annotations

import copy
import functools
import logging
import multiprocessing
from collections.abc import Callable, Mapping, Sequence
from types import NoneType, TracebackType
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode, VectorEnv

from vlm_envs.errors import ConfigError, EpisodeOverError, LevelError, require_choice, require_positive
from vlm_envs.registration import make
from vlm_envs.trajectory import Observation
from vlm_envs.vector.pools import WorkerPool, make_pool
from vlm_envs.vector.workers import Call, Reply

WORKER_KINDS = ("serial", "thread", "process")

Observations = tuple[Observation, ...]
Actions = Sequence[str | None]
Flags = npt.NDArray[np.bool_]
Steps = tuple[Observations, npt.NDArray[np.float64], Flags, Flags, dict[str, Any]]

_NOTHING_DONE: Mapping[str, Any] = {
    "actions": (),
    "action_valid": False,
    "action_effective": False,
    "format_correct": False,
    "parse_error": None,
}
_CALLER_MISTAKES = (ConfigError, EpisodeOverError, LevelError)
_logger = logging.getLogger(__name__)


class VectorWorld(VectorEnv[Observations, Actions, npt.NDArray[Any]]):
    """Several worlds stepped together.

    Observations are a tuple of the worlds' own observations; an action is a sequence of response texts.
    Episodes are reset by the caller (`AutoresetMode.DISABLED`), all of them or those of a mask.

    `infos["env"][i]` is world i's own `info`. `infos["success"]` and `infos["format_correct"]` are bool[N]
    of the same facts. `infos["_env"]`, `infos["_success"]` and `infos["_format_correct"]` are bool[N] that
    tell which worlds acted in this call, as in every Gymnasium vector environment; the others repeat their
    last facts.

    A world that fails in `step` ends its own episode only: it comes back truncated with reward 0, its last
    observation, `success` False and the reason in `infos["env"][i]["worker_error"]`, and its next reset
    starts it anew. That covers a process that dies, a call that takes longer than `step_timeout_s` and
    exceptions, except those that mean a mistake of the caller (`ConfigError`, `EpisodeOverError`,
    `LevelError`): they are raised, as is every exception in `reset`; `try_reset` tries again and leaves out
    what cannot be started. A worker that dies or hangs ends the running episodes of all worlds it serves.
    Threads cannot be killed: one that hangs is abandoned. Serial workers have no timeout.

    Args:
        env_fns: What makes each world; all must have the same spaces.
        workers: `"serial"` (in this thread), `"thread"` or `"process"`.
        num_workers: Threads or processes, each serving several worlds; None for one per CPU core.
        step_timeout_s: Longest time one world may take for one call, in seconds.
        start_method: How processes start: `"spawn"`, `"forkserver"` or `"fork"`.

    Raises:
        ConfigError: If an argument is not usable or the worlds differ in their spaces.
        WorkerError: If a worker cannot start.
    """

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
        self._pool = make_pool(
            dict(enumerate(env_fns)),
            workers=require_choice("workers", workers, WORKER_KINDS),
            num_workers=None if num_workers is None else require_positive("num_workers", num_workers),
            timeout_s=float(step_timeout_s),
            start_method=require_choice("start_method", start_method, multiprocessing.get_all_start_methods()),
        )
        self._take_spaces(self._pool)
        self._observations: list[Observation | None] = [None] * self.num_envs
        self._infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        self._terminated = np.zeros(self.num_envs, np.bool_)
        self._truncated = np.zeros(self.num_envs, np.bool_)

    def _take_spaces(self, pool: WorkerPool) -> None:
        """Sets spaces and metadata from the first world, after checking that the others agree."""
        described = pool.describe()
        first = described[0]
        for index, other in sorted(described.items()):
            for which in ("observation_space", "action_space"):
                if getattr(other, which) != getattr(first, which):
                    self.close()
                    raise ConfigError(
                        f"All worlds of a VectorWorld need the same {which}; number {index} has "
                        f"{getattr(other, which)}, number 0 has {getattr(first, which)}."
                    )
        self.metadata = {**first.metadata, "autoreset_mode": AutoresetMode.DISABLED}
        self.render_mode = first.render_mode
        self.single_observation_space, self.single_action_space = first.observation_space, first.action_space
        # Copies, because a space that stood N times in the tuple would be seeded N times
        self.observation_space = gym.spaces.Tuple(
            [copy.deepcopy(first.observation_space) for _ in range(self.num_envs)]
        )
        self.action_space = gym.spaces.Tuple([copy.deepcopy(first.action_space) for _ in range(self.num_envs)])

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, dict[str, Any]]:
        """Starts an episode in every world, or in those of a mask.

        Args:
            seed: One seed per world; an integer s stands for s, s + 1, ..., s + N - 1.
            options: `"reset_mask"`, bool[N], limits the reset to some worlds, the others keep their episode;
                all other options go to each world that is reset.

        Returns:
            The observations of all worlds, and `infos`.

        Raises:
            ConfigError: If the seeds or the mask do not fit.
            EpisodeOverError: If a world outside the mask was never reset.
            WorkerError: If a worker was lost; reset again, it is started anew.
            Exception: What a world's `reset` raised.
        """
        mask, calls = self._reset_calls(seed, options)
        failed = self._reset_some(calls)
        for i in sorted(failed):  # only now, so that the worlds that were reset are known as such
            if mask[i]:
                failed[i].unwrap()
        return self._batch_observations(), self._batch_infos(mask)

    def try_reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, dict[str, Any]]:
        """Starts an episode wherever one can be started: `reset` for those who can do without some worlds.

        What fails is tried again, in workers started anew: first all together, then one by one, so that a world which
        kills its worker every time takes no other along. A world that fails even so is left truncated, with the reason
        in `infos["env"][i]["worker_error"]`; one that never had an observation shows an empty text.

        Args:
            seed: As for `reset`.
            options: As for `reset`.

        Returns:
            The observations of all worlds, and `infos`.

        Raises:
            ConfigError: If the seeds or the mask do not fit.
            EpisodeOverError: If a world outside the mask was never reset.
            LevelError: If a world was asked for a level that does not exist.
        """
        mask, calls = self._reset_calls(seed, options)
        failed = self._reset_some(calls)
        queue = sorted(self._reset_some({i: calls[i] for i in failed if i in calls})) if failed else []
        given_up: dict[int, Reply] = {}
        while queue:
            i = queue.pop(0)
            failed = self._reset_some({i: calls[i]})
            if i in failed:
                given_up[i] = failed[i]
            queue += [j for j in sorted(failed) if j in calls and j not in given_up and j not in queue]
        for i, reply in given_up.items():
            self._leave_out(i, reply)
        return self._batch_observations(), self._batch_infos(mask)

    def _reset_calls(
        self, seed: int | Sequence[int | None] | None, options: dict[str, Any] | None
    ) -> tuple[Flags, dict[int, Call]]:
        """Returns which worlds are to be reset, and how."""
        super().reset(seed=seed if isinstance(seed, int) else None)
        world_options = dict(options or {})
        mask = self._checked_mask(world_options.pop("reset_mask", None))
        seeds = self._checked_seeds(seed)
        self._require_started(~mask)
        return mask, {
            i: Call("reset", (), {"seed": seeds[i], "options": world_options or None})
            for i in np.flatnonzero(mask).tolist()
        }

    def _reset_some(self, calls: Mapping[int, Call]) -> dict[int, Reply]:
        """Resets some worlds and returns the replies that tell of a failure, in whichever worlds."""
        failed: dict[int, Reply] = {}
        for i, reply in sorted(self._run(calls).items()):
            if reply.error is not None or reply.lost is not None:
                failed[i] = reply
                self._end_episode(i, reply)
            elif i in calls:
                self._observations[i], self._infos[i] = reply.value
                self._terminated[i] = self._truncated[i] = False
        return failed

    def _leave_out(self, i: int, reply: Reply) -> None:
        """Marks a world that could not be reset as over."""
        if isinstance(reply.error, _CALLER_MISTAKES):
            reply.unwrap()
        if self._observations[i] is None:
            self._observations[i] = {"text": ""}
        self._terminated[i], self._truncated[i] = False, True
        nothing = {**_NOTHING_DONE, "reward_terms": {}, "success": False}
        self._infos[i] = {**self._infos[i], **nothing, "worker_error": _reason(reply)}

    def step(self, actions: Actions) -> Steps:
        """Steps every world that is given a response.

        Args:
            actions: One response per world. None leaves a world alone: it repeats its last observation and
                flags, with reward 0 and empty `reward_terms`.

        Returns:
            Observations, rewards float64[N], terminated bool[N], truncated bool[N], infos.

        Raises:
            ConfigError: If there is not one action per world.
            EpisodeOverError: If a world whose episode is over, or never started, is given a response.
        """
        acting = self._checked_actions(actions)
        replies = self._run({i: Call("step", (actions[i],)) for i in np.flatnonzero(acting).tolist()})
        rewards = np.zeros(self.num_envs)
        for i in np.flatnonzero(~acting).tolist():
            self._infos[i] = {**self._infos[i], "reward_terms": {}}
        for i, reply in sorted(replies.items()):
            if reply.value is not None:
                self._observations[i], rewards[i], self._terminated[i], self._truncated[i], self._infos[i] = reply.value
            if reply.lost is not None or not isinstance(reply.error, (NoneType, *_CALLER_MISTAKES)):
                self._end_episode(i, reply)
        for reply in replies.values():
            if isinstance(reply.error, _CALLER_MISTAKES):
                reply.unwrap()
        infos = self._batch_infos(acting)
        return self._batch_observations(), rewards, self._terminated.copy(), self._truncated.copy(), infos

    def _end_episode(self, i: int, reply: Reply) -> None:
        """Truncates the running episode of a world that can no longer be stepped."""
        if self._terminated[i] or self._truncated[i] or self._observations[i] is None:
            return
        reason = _reason(reply)
        _logger.warning("Environment %d ends its episode: %s", i, reply.traceback or reason)
        self._truncated[i] = True
        done = {} if reply.value is not None else {**_NOTHING_DONE, "reward_terms": {}}
        self._infos[i] = {**self._infos[i], **done, "success": False, "worker_error": reason}

    def _run(self, calls: Mapping[int, Call]) -> dict[int, Reply]:
        if self.closed or self._pool is None:
            raise EpisodeOverError("This VectorWorld is closed; make a new one.")
        return self._pool.run(calls)

    def _checked_mask(self, mask: Any) -> Flags:
        if mask is None:
            return np.ones(self.num_envs, np.bool_)
        array = np.asarray(mask)
        if array.dtype != np.bool_ or array.shape != (self.num_envs,) or not array.any():
            raise ConfigError(
                f"options['reset_mask'] must be bool[{self.num_envs}] with at least one True; got {mask!r}."
            )
        return array

    def _checked_seeds(self, seed: int | Sequence[int | None] | None) -> list[int | None]:
        if seed is None:
            return [None] * self.num_envs
        if isinstance(seed, int | np.integer):
            return [int(seed) + i for i in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise ConfigError(f"seed must be an integer or {self.num_envs} seeds, one per world; got {len(seed)}.")
        return [None if one is None else int(one) for one in seed]

    def _checked_actions(self, actions: Actions) -> Flags:
        """Returns which worlds act."""
        if isinstance(actions, str) or len(actions) != self.num_envs:
            came = "one string" if isinstance(actions, str) else f"{len(actions)} actions"
            raise ConfigError(f"step() takes {self.num_envs} responses, one per world; got {came}.")
        self._require_started(np.ones(self.num_envs, np.bool_))
        acting = np.array([action is not None for action in actions], np.bool_)
        over = np.flatnonzero(acting & (self._terminated | self._truncated))
        if over.size:
            raise EpisodeOverError(
                f"The episode of environment {over[0]} is over; give None as its action, or reset it with "
                "reset(options={'reset_mask': ...}) before the next step()."
            )
        return acting

    def _require_started(self, which: Flags) -> None:
        for i in np.flatnonzero(which).tolist():
            if self._observations[i] is None:
                raise EpisodeOverError(f"Environment {i} was never reset; call reset(seed=...) without a mask first.")

    def _batch_observations(self) -> Observations:
        return tuple(observation for observation in self._observations if observation is not None)

    def _batch_infos(self, acting: Flags) -> dict[str, Any]:
        """Returns `infos` in the form the class describes."""
        env_infos = np.empty(self.num_envs, dtype=object)
        env_infos[:] = self._infos
        infos: dict[str, Any] = {"env": env_infos, "_env": acting.copy()}
        for key in ("success", "format_correct"):
            infos[key] = np.array([bool(info.get(key, False)) for info in self._infos], np.bool_)
            infos[f"_{key}"] = acting.copy()
        return infos

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Returns what a method of each world returns, or the attribute of that name.

        Args:
            name: Method or attribute, looked up through wrappers.
            *args: Positional arguments of the method.
            **kwargs: Keyword arguments of the method.

        Raises:
            Exception: What a world raised.
        """
        values = self._values({i: Call(name, args, kwargs) for i in range(self.num_envs)})
        return tuple(values[i] for i in range(self.num_envs))

    def apply(self, functions: Mapping[int, Callable[[Any], Any]]) -> dict[int, Any]:
        """Returns what functions of worlds return, each called where its world lives.

        Args:
            functions: By number of the world, which each is given without its wrappers. Unless `workers="serial"` they
                and what they return must be picklable; what they keep for themselves stays there.

        Raises:
            ConfigError: If there is no such world, or a function is none or cannot be pickled; none is called then.
            Exception: What a function raised.
        """
        for i, function in functions.items():
            if i not in range(self.num_envs) or not callable(function):
                raise ConfigError(
                    f"apply() takes a function of a world by its number, numbers 0 to {self.num_envs - 1}; "
                    f"got {i!r}: {function!r}."
                )
        return self._values({i: Call("apply", function=function) for i, function in functions.items()})

    def _values(self, calls: Mapping[int, Call]) -> dict[int, Any]:
        """Returns what calls return; the episodes of worlds that were lost end."""
        replies = self._run(calls)
        for i, reply in replies.items():
            if reply.lost is not None:
                self._end_episode(i, reply)
        return {i: replies[i].unwrap() for i in sorted(replies)}

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Returns an attribute of each world."""
        return self.call(name)

    def render(self) -> tuple[Any, ...]:
        """Returns what each world's `render` returns."""
        return self.call("render")

    def close_extras(self, **kwargs: Any) -> None:
        """Ends the workers; called by `close`, which may be called again without harm."""
        if self._pool is not None:
            self._pool.close()

    def __enter__(self) -> VectorWorld:
        """Returns itself, to be closed at the end of a `with` block."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        """Closes the worlds."""
        self.close()


def _reason(reply: Reply) -> str:
    """Returns why a call failed, on one line."""
    return reply.lost or f"{type(reply.error).__name__}: {reply.error}"


_VECTOR_ARGUMENTS = ("workers", "num_workers", "step_timeout_s", "start_method")


def world_vector(env_id: str, num_envs: int, **kwargs: Any) -> VectorWorld:
    """Makes a `VectorWorld` of equal worlds.

    Args:
        env_id: A registered id.
        num_envs: How many worlds.
        **kwargs: `workers`, `num_workers`, `step_timeout_s` and `start_method` go to `VectorWorld`, all
        others to
            each world.

    Returns:
        The vector environment.

    Raises:
        ConfigError: If an argument is not usable.
    """
    require_positive("num_envs", num_envs)
    vector_kwargs = {name: kwargs.pop(name) for name in _VECTOR_ARGUMENTS if name in kwargs}
    # What Gymnasium's checker would look for at run time is proved by vlm_envs.testing
    env_fn = functools.partial(make, env_id, disable_env_checker=True, **kwargs)
    return VectorWorld([env_fn] * num_envs, **vector_kwargs)


def sokoban_vector(num_envs: int = 1, **kwargs: Any) -> VectorWorld:
    """Makes a `VectorWorld` of `VLM/Sokoban-v0`; arguments as in `world_vector`."""
    return world_vector("VLM/Sokoban-v0", num_envs, **kwargs)


def frozen_lake_vector(num_envs: int = 1, **kwargs: Any) -> VectorWorld:
    """Makes a `VectorWorld` of `VLM/FrozenLake-v0`; arguments as in `world_vector`."""
    return world_vector("VLM/FrozenLake-v0", num_envs, **kwargs)


def svg_vector(num_envs: int = 1, **kwargs: Any) -> VectorWorld:
    """Makes a `VectorWorld` of `VLM/SVG-v0`; arguments as in `world_vector`."""
    return world_vector("VLM/SVG-v0", num_envs, **kwargs)


def navigation_vector(num_envs: int = 1, **kwargs: Any) -> VectorWorld:
    """Makes a `VectorWorld` of `VLM/Navigation-v0`; arguments as in `world_vector`."""
    return world_vector("VLM/Navigation-v0", num_envs, **kwargs)


def primitive_skill_vector(num_envs: int = 1, **kwargs: Any) -> VectorWorld:
    """Makes a `VectorWorld` of `VLM/PrimitiveSkill-v0`; arguments as in `world_vector`."""
    return world_vector("VLM/PrimitiveSkill-v0", num_envs, **kwargs)


def zoom_qa_vector(num_envs: int = 1, **kwargs: Any) -> VectorWorld:
    """Makes a `VectorWorld` of `VLM/ZoomQA-v0`; arguments as in `world_vector`."""
    return world_vector("VLM/ZoomQA-v0", num_envs, **kwargs)


def reward_judging_vector(num_envs: int = 1, **kwargs: Any) -> VectorWorld:
    """Makes a `VectorWorld` of `VLM/RewardJudging-v0`; arguments as in `world_vector`."""
    return world_vector("VLM/RewardJudging-v0", num_envs, **kwargs)


def doc_qa_vector(num_envs: int = 1, **kwargs: Any) -> VectorWorld:
    """Makes a `VectorWorld` of `VLM/DocQA-v0`; arguments as in `world_vector`."""
    return world_vector("VLM/DocQA-v0", num_envs, **kwargs)
