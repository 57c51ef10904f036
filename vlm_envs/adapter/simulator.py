"""The live environment of an adapted world: states are a seed and actions, and are reached by replaying them."""

from __future__ import annotations

import contextlib
import hashlib
import io
import logging
import multiprocessing
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from vlm_envs.adapter.actions import Action, action_texts
from vlm_envs.adapter.known import known_of
from vlm_envs.adapter.settings import INFO_RULE, SUCCESS_RULES, AdapterSettings, function_of, require_env
from vlm_envs.errors import ConfigError, EngineUnavailableError, WorldContractError, did_you_mean, require
from vlm_envs.splits import SPLITS, split_of

NUM_EQUAL_PROBES = 16
"""Seeds whose first observations are compared; if all are equal, seeds change nothing visible."""
NUM_PROBES = 128
"""Seeds in which levels of every split are looked for."""
MIN_PROBED_LEVELS = 2
"""Levels that every split must have among these seeds to be kept apart by content."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome:
    """What the environment returned when a state was reached.

    Attributes:
        digest: Hash of the observation.
        reward: Reward of the last action.
        total: Sum of all rewards so far.
        terminated: Whether the environment ended.
        truncated: Whether its own time limit was reached.
        success: Whether this counts as success.
        hint: Text of the observation, and allowed actions.
        allowed: Numbers of allowed actions; None for all.
    """

    digest: bytes = b""
    reward: float = 0.0
    total: float = 0.0
    terminated: bool = False
    truncated: bool = False
    success: bool = False
    hint: str = ""
    allowed: tuple[int, ...] | None = None

    @property
    def is_last(self) -> bool:
        """Whether the environment takes no further action."""
        return self.terminated or self.truncated


@dataclass(frozen=True)
class AdaptedState:
    """A state: the seed of its episode and all actions so far. What follows from these is not compared."""

    seed: int
    actions: tuple[Action, ...] = ()
    outcome: Outcome = field(default=Outcome(), compare=False, repr=False)


class Simulator:
    """One live environment, which is brought to the state that is asked about.

    Copies and pickles leave the environment out and replay, since many environments cannot be copied, and some are
    silently wrong afterwards.

    Args:
        settings: Which environment, and how it is adapted.

    Raises:
        ConfigError: If the environment cannot be made with these settings, or they do not fit it.
        EngineUnavailableError: If a package or driver that it needs is missing.
    """

    def __init__(self, settings: AdapterSettings) -> None:
        self.settings = settings
        self._forget()
        env = self.env
        self.known = known_of(type(env.unwrapped).__module__)
        own_names = _own_names(env) or (self.known.actions if self.known else ())
        self.texts = action_texts(env.action_space, settings.actions, own_names)
        self._require_hints()
        self._rule, self._describe, self._plan = self._functions()
        self.start(0)
        self.image_shape = _scaled_shape(self._rendered().shape, settings.image_px)
        self.splits_differ = self._splits_differ()

    def _forget(self) -> None:
        self._env: gym.Env[Any, Any] | None = None
        self._state: AdaptedState | None = None
        self._shown: tuple[AdaptedState, npt.NDArray[np.uint8]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_env": None, "_state": None, "_shown": None}

    @property
    def env(self) -> gym.Env[Any, Any]:
        """The environment, made when it is first asked for."""
        if self._env is None:
            self._env = _made(self.settings)
        return self._env

    @property
    def succeeds_in_time(self) -> bool:
        """Whether success is to last until the environment's own time limit."""
        return self._rule == "truncated"

    @property
    def time_limit(self) -> int | None:
        """Actions until Gymnasium truncates the episode; None without a limit, or where only the class knows it."""
        return None if self.env.spec is None else self.env.spec.max_episode_steps

    @property
    def can_describe(self) -> bool:
        """Whether states have words."""
        return self._describe is not None

    @property
    def can_plan(self) -> bool:
        """Whether there is a planner."""
        return self._plan is not None

    def start(self, seed: int) -> AdaptedState:
        """Returns the first state of a seed's episode."""
        with _quiet_stdout():
            observation, info = self.env.reset(seed=seed)
        self._state = AdaptedState(seed, (), self._outcome(observation, info))
        return self._state

    def step(self, state: AdaptedState, action: Action) -> AdaptedState:
        """Returns the state after an action; a state in which the environment has ended stays as it is."""
        if state.outcome.is_last:
            return state
        self.go_to(state)
        with _quiet_stdout():
            observation, reward, terminated, truncated, info = self.env.step(self.texts.value_of(action))
        before = state.outcome
        outcome = replace(
            self._outcome(observation, info),
            reward=float(reward),
            total=before.total + float(reward),
            terminated=bool(terminated),
            truncated=bool(truncated) and not terminated,
        )
        outcome = replace(outcome, success=self._is_success(outcome, info))
        self._state = AdaptedState(state.seed, (*state.actions, action), outcome)
        return self._state

    def go_to(self, state: AdaptedState) -> gym.Env[Any, Any]:
        """Brings the environment to a state, by replaying its actions unless it is there, and returns it.

        Raises:
            WorldContractError: If the same seed and actions lead to another observation.
        """
        here = self._state
        if here is state or (here is not None and here == state):
            return self.env
        done = 0 if here is None else len(here.actions)
        is_behind = here is not None and here.seed == state.seed and here.actions == state.actions[:done]
        reached = here if here is not None and is_behind else self.start(state.seed)
        for action in state.actions[len(reached.actions) :]:
            reached = self.step(reached, action)
        if state.outcome.digest and state.outcome.digest != reached.outcome.digest:
            raise WorldContractError(
                f"{self.settings.env} is not reproducible: seed {state.seed} and {len(state.actions)} actions led to "
                "another observation when they were replayed. Its chance must come from the seed of reset alone."
            )
        return self.env

    def image(self, state: AdaptedState) -> npt.NDArray[np.uint8]:
        """Returns the image of a state, uint8[H, W, 3]; that of the last state is kept."""
        if self._shown is None or self._shown[0] != state:
            self.go_to(state)
            self._shown = state, _resized(self._rendered(), self.image_shape)
        return self._shown[1].copy()

    def describe(self, state: AdaptedState) -> str:
        """Returns a state in words; empty without `describe`."""
        if self._describe is None:
            return ""
        text = self._describe(self.go_to(state))
        require(isinstance(text, str), f"describe must return a text; got {text!r}.")
        return str(text)

    def plan(self, state: AdaptedState) -> tuple[Action, ...] | None:
        """Returns the planner's plan; None without one.

        Raises:
            ConfigError: If the plan holds something that is not an action.
        """
        if self._plan is None:
            return None
        if state.outcome.is_last:
            return () if state.outcome.success else None
        found = self._plan(self.go_to(state))
        return None if found is None else tuple(map(self._planned, found))

    def _planned(self, value: object) -> Action:
        action = self.texts.action_of(value)
        is_known = action is not None and (not self.texts.names or action in self.texts.names.values())
        if action is None or not is_known:
            raise ConfigError(f"plan returned {value!r}, which is not an action; expected {self.texts.expected}.")
        return action

    def close(self) -> None:
        """Closes the environment; it is made again if it is asked for again."""
        if self._env is not None:
            _free_context(self._env)
            self._env.close()
        self._forget()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # while the interpreter ends, anything may be gone
            self.close()

    def _outcome(self, observation: Any, info: Mapping[str, Any]) -> Outcome:
        digest = hashlib.blake2b(digest_size=16)
        _absorb(digest, observation)
        allowed = _allowed(self.env.action_space, info)
        return Outcome(digest=digest.digest(), hint=self._hint(observation, allowed), allowed=allowed)

    def _hint(self, observation: Any, allowed: tuple[int, ...] | None) -> str:
        found = observation if isinstance(observation, Mapping) else {"observation": observation}
        wanted = found if self.settings.hint is None else self.settings.hint
        lines = [f"{key.capitalize()}: {found[key]}" for key in wanted if isinstance(found.get(key), str)]
        if allowed is not None and self.texts.names:
            names = [name for name, action in self.texts.names.items() if action in allowed]
            lines.append(f"Allowed actions: {', '.join(names) or 'none'}.")
        return "\n".join(lines)

    def _require_hints(self) -> None:
        space = self.env.observation_space
        entries = [*space.spaces] if isinstance(space, spaces.Dict) else ["observation"]
        for key in self.settings.hint or ():
            require(
                key in entries,
                f"hint: the observation of {self.settings.env} has no {key!r}.{did_you_mean(key, entries)} It has "
                f"{', '.join(map(str, entries))}.",
            )

    def _functions(
        self,
    ) -> tuple[Callable[..., bool] | str | float, Callable[..., Any] | None, Callable[..., Any] | None]:
        """Returns the rule of success, and `describe` and `plan` where they are given."""
        given = self.settings
        rule = given.success
        if rule is None:
            rule = "" if self.known is None else self.known.success
            if self.known is None:
                notice(
                    f"What counts as success in {given.env} is not known: 'success' or 'is_success' of its info, or "
                    "else a positive reward at the end. Set success=... to choose."
                )
        elif callable(rule) or (isinstance(rule, str) and rule not in SUCCESS_RULES and not rule.startswith(INFO_RULE)):
            rule = function_of("success", rule)
        describe, plan = (
            None if value is None else function_of(name, value)
            for name, value in (("describe", given.describe), ("plan", given.plan))
        )
        return rule, describe, plan

    def _is_success(self, outcome: Outcome, info: Mapping[str, Any]) -> bool:
        rule = self._rule
        if callable(rule):
            return bool(rule(self.env, outcome.reward, outcome.terminated, outcome.truncated, dict(info)))
        if self.settings.success is None:
            for key in ("success", "is_success"):
                if key in info:
                    return bool(info[key])
        if isinstance(rule, int | float):
            return outcome.total >= rule and (outcome.is_last or rule > 0)
        if rule.startswith(INFO_RULE):
            return bool(info.get(rule.removeprefix(INFO_RULE), False))
        if rule in ("terminated", "truncated"):
            return bool(getattr(outcome, rule))
        return outcome.is_last and outcome.reward > 0

    def _splits_differ(self) -> bool:
        """Returns whether levels can be split by content: fixed seeds have levels of every split."""
        key = repr((self.settings.env, sorted((self.settings.make or {}).items()), id(type(self.env.unwrapped))))
        if key not in _SPLITS_DIFFER:
            found = self._probed_levels()
            _SPLITS_DIFFER[key] = all(len(levels) >= MIN_PROBED_LEVELS for levels in found.values())
            if not _SPLITS_DIFFER[key]:
                num_levels = sum(map(len, found.values()))
                seen = "nothing visible" if num_levels == 1 else f"too little (only {num_levels} starts were found)"
                notice(
                    f"The seed changes {seen} in {self.settings.env}: its train, val, and test levels may be the same."
                )
        return _SPLITS_DIFFER[key]

    def _probed_levels(self) -> dict[str, set[bytes]]:
        found: dict[str, set[bytes]] = {split: set() for split in SPLITS}
        for seed in range(NUM_PROBES):
            digest = self.start(seed).outcome.digest
            found[split_of(digest)].add(digest)
            if seed + 1 < NUM_EQUAL_PROBES:
                continue
            if sum(map(len, found.values())) == 1 or all(len(each) >= MIN_PROBED_LEVELS for each in found.values()):
                break
        return found

    def _rendered(self) -> npt.NDArray[np.uint8]:
        with _quiet_stdout():
            was_centered = _center_camera(self.env)
            frame = self.env.render()
            if not was_centered and _center_camera(self.env):  # the first image makes the camera
                frame = self.env.render()
        image = np.asarray(frame) if isinstance(frame, np.ndarray) else None
        if image is None or image.dtype != np.uint8 or image.ndim not in (2, 3) or image.size == 0:
            came = type(frame).__name__ if image is None else f"{image.dtype}{list(image.shape)}"
            raise ConfigError(
                f"{self.settings.env} draws no images: render() should return uint8[H, W, 3] with "
                f"render_mode='rgb_array', but returned {came}."
            )
        if image.ndim == 2 or image.shape[2] == 1:
            image = np.repeat(image.reshape(*image.shape[:2], 1), 3, axis=2)
        return np.ascontiguousarray(image[..., :3])


_SPLITS_DIFFER: dict[str, bool] = {}
"""Results of probing, which all worlds of equal settings share."""


def notice(text: str) -> None:
    """Logs a warning once, and not again in the worker processes of a vector."""
    if multiprocessing.parent_process() is None and text not in _NOTICES:
        _NOTICES.add(text)
        _logger.warning(text)


_NOTICES: set[str] = set()


def _made(settings: AdapterSettings) -> gym.Env[Any, Any]:
    """Returns a new environment."""
    require_env(settings.env)
    kwargs = {"render_mode": "rgb_array", "disable_env_checker": True, **(settings.make or {})}
    try:
        with warnings.catch_warnings(), _quiet_stdout():
            warnings.simplefilter("ignore")  # of old versions, and of libraries about each other
            return gym.make(settings.env, **kwargs)
    except (ImportError, gym.error.DependencyNotInstalled) as error:
        raise EngineUnavailableError(f"{settings.env} cannot run here: {_line(error)}") from error
    except (TypeError, ValueError, gym.error.Error) as error:
        with_them = f" with make = {dict(settings.make)}" if settings.make else ""
        raise ConfigError(f"{settings.env} cannot be made{with_them}: {_line(error)}") from error


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())


def _center_camera(env: gym.Env[Any, Any]) -> bool:
    """Makes an environment of MuJoCo draw into its own context and centers its camera; returns whether it has one.

    Gymnasium leaves a free camera where the first image of the environment was drawn, and a tracking one moves a part
    of the way per image. Centered, images depend on the state alone.
    """
    unwrapped: Any = env.unwrapped
    renderer = getattr(unwrapped, "mujoco_renderer", None)
    viewer: Any = getattr(renderer, "viewer", None)
    camera = getattr(viewer, "cam", None)
    if camera is None:
        return False
    if hasattr(viewer, "make_context_current"):  # of several environments in a process, the last one made is current
        viewer.make_context_current()
    if int(camera.type) == _TRACKING:
        camera.lookat[:] = unwrapped.data.subtree_com[camera.trackbodyid]
    elif int(camera.type) == _FREE and "lookat" not in (getattr(renderer, "default_cam_config", None) or {}):
        camera.lookat[:] = np.median(unwrapped.data.geom_xpos, axis=0)
    return True


def _free_context(env: gym.Env[Any, Any]) -> None:
    """Frees what MuJoCo draws with while its own context is current; otherwise that of another environment is freed."""
    viewer: Any = getattr(getattr(env.unwrapped, "mujoco_renderer", None), "viewer", None)
    if hasattr(viewer, "con") and hasattr(viewer, "make_context_current"):
        viewer.make_context_current()
        viewer.con.free()


_FREE, _TRACKING = 0, 1
"""`mujoco.mjtCamera.mjCAMERA_FREE` and `mjCAMERA_TRACKING`."""


def _own_names(env: gym.Env[Any, Any]) -> tuple[str, ...]:
    """Returns what an environment calls the numbers of its discrete actions; nothing where it does not say."""
    unwrapped: Any = env.unwrapped
    meanings = getattr(unwrapped, "get_action_meanings", None)
    if callable(meanings):
        return tuple(map(str, meanings()))
    actions = getattr(unwrapped, "actions", None)
    members: Mapping[str, Any] = getattr(actions, "__members__", {})
    return tuple(name for name, _ in sorted(members.items(), key=lambda member: int(member[1])))


def _allowed(space: spaces.Space[Any], info: Mapping[str, Any]) -> tuple[int, ...] | None:
    mask = info.get("action_mask")
    if mask is None or not isinstance(space, spaces.Discrete) or np.shape(mask) != (int(space.n),):
        return None
    return tuple(int(space.start) + int(number) for number in np.flatnonzero(mask))


def _absorb(digest: hashlib.blake2b, part: Any) -> None:
    """Adds an observation to a digest."""
    if isinstance(part, Mapping):
        digest.update(f"dict{len(part)}".encode())
        for key in sorted(part, key=str):
            digest.update(repr(key).encode())
            _absorb(digest, part[key])
    elif isinstance(part, list | tuple):
        digest.update(f"{len(part)}".encode())
        for item in part:
            _absorb(digest, item)
    elif isinstance(part, str | bytes | None):
        digest.update(repr(part).encode("utf-8", "surrogatepass"))
    else:
        try:
            array = np.asarray(part)
        except ValueError:
            array = np.asarray(repr(part))
        is_plain = array.dtype.kind in "biufc"
        digest.update(f"{array.dtype}{array.shape}".encode() + (array.tobytes() if is_plain else repr(part).encode()))


def _scaled_shape(shape: tuple[int, ...], longer_px: int | None) -> tuple[int, int, int]:
    height, width = shape[:2]
    if longer_px is None:
        return height, width, 3
    scale = longer_px / max(height, width)
    return max(1, round(height * scale)), max(1, round(width * scale)), 3


def _resized(image: npt.NDArray[np.uint8], shape: tuple[int, int, int]) -> npt.NDArray[np.uint8]:
    if image.shape == shape:
        return image
    from PIL import Image  # needed for other sizes only

    method = Image.Resampling.BOX if shape[0] < image.shape[0] else Image.Resampling.NEAREST
    return np.asarray(Image.fromarray(image).resize((shape[1], shape[0]), method), np.uint8)


class _Muted(io.TextIOBase):
    """A standard output that drops what some threads print and passes on the rest."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.threads: list[int] = []

    def write(self, text: str) -> int:
        return len(text) if threading.get_ident() in self.threads else int(self.stream.write(text))

    def flush(self) -> None:
        self.stream.flush()

    def __getattribute__(self, name: str) -> Any:
        passed_on = name in ("isatty", "fileno", "encoding", "errors", "buffer", "reconfigure")
        return getattr(self.stream, name) if passed_on else super().__getattribute__(name)


_mute_lock = threading.Lock()


@contextlib.contextmanager
def _quiet_stdout() -> Iterator[None]:
    """Drops what environments print in this thread, such as BabyAI's rejected levels."""
    with _mute_lock:
        muted = sys.stdout if isinstance(sys.stdout, _Muted) else _Muted(sys.stdout)
        muted.threads.append(threading.get_ident())
        sys.stdout = muted
    try:
        yield
    finally:
        with _mute_lock:
            muted.threads.remove(threading.get_ident())
            if not muted.threads and sys.stdout is muted:
                sys.stdout = muted.stream
