"""The simulator of an adapted world: a state is a seed and actions, and is reached by replaying them."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import multiprocessing
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from vlm_envs.adapter.adapted_actions import Action, action_texts
from vlm_envs.adapter.adapter_settings import INFO_RULE, SUCCESS_RULES, AdapterSettings, function_of
from vlm_envs.adapter.live_env import LiveEnv, made
from vlm_envs.errors import ConfigError, WorldContractError
from vlm_envs.parts import View
from vlm_envs.splits import SPLITS, split_of
from vlm_envs.validation import did_you_mean, require

NUM_EQUAL_PROBES = 16
"""Number of seeds whose first observations are compared; if all are equal, the seed has no visible effect."""
NUM_PROBES = 128
"""Number of seeds searched for levels of every split."""
MIN_PROBED_LEVELS = 2
"""Minimum number of levels of each split among these seeds for splits to be separated by content."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome:
    """Return values of the environment on reaching a state.

    Attributes:
        digest: Hash of the observation.
        reward: Reward for the last action.
        total: Sum of all rewards so far.
        terminated: Whether the environment terminated the episode.
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
        """Whether the environment has terminated or truncated the episode."""
        return self.terminated or self.truncated


@dataclass(frozen=True)
class AdaptedState:
    """A state: the seed of its episode and all actions so far. The outcome follows from them and is not compared."""

    seed: int
    actions: tuple[Action, ...] = ()
    outcome: Outcome = field(default=Outcome(), compare=False, repr=False)


class Simulator(View[AdaptedState]):
    """A live environment that is brought to each requested state to step, draw, and describe it.

    Copies and pickles omit the environment and replay, since many environments cannot be copied, and some are
    silently wrong afterwards.

    Args:
        settings: The environment, and how it is adapted.

    Attributes:
        describe_function: The setting `describe` as a function; None without it.
        plan_function: The setting `plan` as a function; None without it.

    Raises:
        ConfigError: If the environment cannot be created with these settings, or they do not fit it.
        EngineUnavailableError: If a package or driver that it needs is missing.
    """

    def __init__(self, settings: AdapterSettings) -> None:
        self.settings = settings
        self._forget()
        env = self.env
        self.known = known_of(type(env.unwrapped).__module__)
        self.texts = action_texts(env.action_space, settings.actions, _own_names(env) or self.known.actions)
        self._require_hints()
        self._find_functions()
        self.start(0)
        self.image_shape = _scaled_shape(env.image().shape, settings.image_px)
        self.splits_differ = self._splits_differ()

    def _forget(self) -> None:
        self._env: LiveEnv | None = None
        self._state: AdaptedState | None = None
        self._shown: tuple[AdaptedState, npt.NDArray[np.uint8]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Functions are found again by name: another process cannot unpickle those from next to a TOML file
        left_out = ("_env", "_state", "_shown", "_rule", "describe_function", "plan_function")
        return {**self.__dict__, **dict.fromkeys(left_out)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._find_functions()

    def _find_functions(self) -> None:
        given = self.settings
        self._rule: Callable[..., bool] | str | float = self.known.success if given.success is None else given.success
        if not self._rule and given.success is None:
            notice(
                f"What counts as success in {given.env} is not known: 'success' or 'is_success' of its info, or "
                "else a positive reward at the end. Set success=... to choose."
            )
        elif not isinstance(self._rule, int | float) and not _is_named_rule(self._rule):
            self._rule = function_of("success", self._rule)
        self.describe_function = None if given.describe is None else function_of("describe", given.describe)
        self.plan_function = None if given.plan is None else function_of("plan", given.plan)

    @property
    def env(self) -> LiveEnv:
        """The environment, created on first use."""
        if self._env is None:
            self._env = made(self.settings)
        return self._env

    @property
    def time_limit(self) -> int:
        """Number of actions after which the environment truncates the episode; 0 for no limit."""
        spec = self.env.spec
        return 0 if spec is None else spec.max_episode_steps or 0

    @property
    def succeeds_at_time_limit(self) -> bool:
        """Whether success may be decided only when the environment's time limit is reached."""
        return self._rule <= 0 if isinstance(self._rule, int | float) else self._rule == "truncated"

    @property
    def actions_to_success(self) -> int:
        """Number of actions that success may take; 0 if it is not known."""
        return self.time_limit if self.succeeds_at_time_limit else self.known.num_actions

    def start(self, seed: int) -> AdaptedState:
        """Returns the first state of a seed's episode."""
        self._state = None  # unknown if the environment raises
        observation, info = self.env.reset(seed=seed)
        self._state = AdaptedState(seed, (), self._outcome(observation, info))
        return self._state

    def step(self, state: AdaptedState, action: Action) -> AdaptedState:
        """Returns the state after an action; a state in which the episode has ended stays the same."""
        if state.outcome.is_last:
            return state
        self.go_to(state)
        self._state = None  # unknown if the environment or the success rule raises
        observation, reward, terminated, truncated, info = self.env.step(self.texts.value_of(action))
        outcome = replace(
            self._outcome(observation, info),
            reward=reward,
            total=state.outcome.total + reward,
            terminated=terminated,
            truncated=truncated and not terminated,
        )
        outcome = replace(outcome, success=self._is_success(outcome, info))
        self._state = AdaptedState(state.seed, (*state.actions, action), outcome)
        return self._state

    def go_to(self, state: AdaptedState) -> LiveEnv:
        """Brings the environment to a state, replaying actions if necessary, and returns it.

        Raises:
            WorldContractError: If the same seed and actions lead to another observation.
        """
        reached = self._state
        if reached is not None and reached == state:
            return self.env
        if reached is None or reached.seed != state.seed or reached.actions != state.actions[: len(reached.actions)]:
            reached = self.start(state.seed)
        for action in state.actions[len(reached.actions) :]:
            reached = self.step(reached, action)
        if state.outcome.digest and state.outcome.digest != reached.outcome.digest:
            raise WorldContractError(
                f"{self.settings.env} is not reproducible: replaying {len(state.actions)} actions after reset with "
                "seed "
                f"{state.seed} led to another observation. All its randomness must come from the seed of reset()."
            )
        return self.env

    def image(self, state: AdaptedState) -> npt.NDArray[np.uint8]:
        """Returns the image of a state, uint8[H, W, 3]; the last one is cached."""
        if self._shown is None or self._shown[0] != state:
            self.go_to(state)
            self._shown = state, _resized(self.env.image(), self.image_shape)
        return self._shown[1].copy()

    def structured(self, state: AdaptedState) -> Mapping[str, Any]:
        """Returns the seed, the number of actions, and the return so far."""
        return {"seed": state.seed, "num_actions": len(state.actions), "return": state.outcome.total}

    def describe(self, state: AdaptedState, representation: str = "natural_language") -> str:
        """Returns a state in words; empty without `describe`."""
        if self.describe_function is None:
            return ""
        text = self._asked("describe", self.describe_function, state)
        require(isinstance(text, str), f"describe must return a text; got {text!r}.")
        return str(text)

    def plan(self, state: AdaptedState) -> tuple[Action, ...] | None:
        """Returns the planner's plan; None without one.

        Raises:
            ConfigError: If the plan contains a value that is not an action.
        """
        if self.plan_function is None:
            return None
        if state.outcome.is_last:
            return () if state.outcome.success else None
        found = self._asked("plan", self.plan_function, state)
        if found is None:
            return None
        is_list = isinstance(found, Iterable) and not isinstance(found, str | bytes | Mapping)
        require(is_list, f"plan must return a list of actions, or None if there is no plan; got {found!r}.")
        return tuple(map(self._planned, found))

    def _planned(self, value: object) -> Action:
        action, names = self.texts.action_of(value), self.texts.names
        if action is None or (names and action not in names.values()):
            raise ConfigError(f"plan returned {value!r}, which is not an action; expected {self.texts.expected}.")
        return action

    def _asked(self, setting: str, function: Callable[[Any], Any], state: AdaptedState) -> Any:
        """Returns the result of a user's function for a state, which must not change the environment."""
        env = self.go_to(state)
        self._state = None  # unknown if the function changes the environment
        with env.unchanged(setting):
            found = function(env)
            if isinstance(found, Iterator):
                found = [*found]
        self._state = state
        return found

    def close(self) -> None:
        """Closes the environment; the next use creates a new one."""
        if self._env is not None:
            self._env.close()
        self._forget()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # while the interpreter exits, anything may be missing
            self.close()

    def _outcome(self, observation: Any, info: Mapping[str, Any]) -> Outcome:
        digest = hashlib.blake2b(digest_size=16)
        _absorb(digest, observation, self.settings.env)
        allowed = _allowed(self.env.action_space, info)
        return Outcome(digest=digest.digest(), hint=self._hint(observation, allowed), allowed=allowed)

    def _hint(self, observation: Any, allowed: tuple[int, ...] | None) -> str:
        if isinstance(observation, Mapping):
            parts = [*observation.items()]
        else:
            parts = [
                ("observation", part) for part in (observation if isinstance(observation, tuple) else [observation])
            ]
        wanted = [key for key, _ in parts] if self.settings.hint is None else self.settings.hint
        lines = [
            f"{str(key).capitalize()}: {part}"
            for key in dict.fromkeys(wanted)
            for name, part in parts
            if name == key and isinstance(part, str)
        ]
        if allowed is not None:
            lines.append(f"Allowed actions: {self.texts.listed(allowed) or 'none'}.")
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

    def _is_success(self, outcome: Outcome, info: Mapping[str, Any]) -> bool:
        rule = self._rule
        if callable(rule):
            with self.env.unchanged("success"):
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
        """Returns whether splits can be separated by content: whether fixed seeds give levels of every split."""
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
            counts = [*map(len, found.values())]
            if seed + 1 >= NUM_EQUAL_PROBES and (sum(counts) == 1 or min(counts) >= MIN_PROBED_LEVELS):
                break
        return found


_SPLITS_DIFFER: dict[str, bool] = {}
"""Cached results of probing, shared by all worlds with the same settings."""


def notice(text: str) -> None:
    """Logs a warning once, and only in the main process, not in the worker processes of a vector."""
    if multiprocessing.parent_process() is None and text not in _NOTICES:
        _NOTICES.add(text)
        _logger.warning(text)


_NOTICES: set[str] = set()


def _is_named_rule(rule: object) -> bool:
    return isinstance(rule, str) and (rule in SUCCESS_RULES or rule.startswith(INFO_RULE))


def _own_names(env: gym.Env[Any, Any]) -> tuple[str, ...]:
    """Returns the environment's own names for the numbers of its discrete actions; empty if it has none."""
    unwrapped: Any = env.unwrapped
    meanings = getattr(unwrapped, "get_action_meanings", None)
    if callable(meanings):
        return tuple(map(str, meanings()))
    members: Mapping[str, Any] = getattr(getattr(unwrapped, "actions", None), "__members__", {})
    numbers = {name: member.value for name, member in members.items()}
    return tuple(sorted(numbers, key=numbers.__getitem__)) if {*map(type, numbers.values())} == {int} else ()


def _allowed(space: spaces.Space[Any], info: Mapping[str, Any]) -> tuple[int, ...] | None:
    mask = info.get("action_mask")
    if mask is None or not isinstance(space, spaces.Discrete) or np.shape(mask) != (int(space.n),):
        return None
    return tuple(int(space.start) + int(number) for number in np.flatnonzero(mask))


def _absorb(digest: hashlib.blake2b, part: Any, env_id: str) -> None:
    """Adds an observation to a digest."""
    if isinstance(part, Mapping):
        digest.update(f"dict{len(part)}".encode())
        for key in sorted(part, key=str):
            digest.update(repr(key).encode())
            _absorb(digest, part[key], env_id)
    elif isinstance(part, list | tuple):
        digest.update(f"{len(part)}".encode())
        for item in part:
            _absorb(digest, item, env_id)
    elif isinstance(part, str | bytes | None):
        digest.update(repr(part).encode("utf-8", "surrogatepass"))
    else:
        try:
            array = np.asarray(part)
        except ValueError:
            array = np.asarray(repr(part))
        is_plain = array.dtype.kind in "biufc"
        if array.dtype.kind == "O" and array.ndim:
            _absorb(digest, array.tolist(), env_id)
        elif not is_plain and _ADDRESS.search(repr(part)):
            raise ConfigError(
                f"The observation of {env_id} contains an object of type {type(part).__name__}, which cannot be "
                "compared by value. Remove it with a gymnasium.ObservationWrapper."
            )
        digest.update(f"{array.dtype}{array.shape}".encode() + (array.tobytes() if is_plain else repr(part).encode()))


_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")


def _scaled_shape(shape: tuple[int, ...], longer_px: int | None) -> tuple[int, int, int]:
    height, width = shape[:2]
    scale = 1.0 if longer_px is None else longer_px / max(height, width)
    return max(1, round(height * scale)), max(1, round(width * scale)), 3


def _resized(image: npt.NDArray[np.uint8], shape: tuple[int, int, int]) -> npt.NDArray[np.uint8]:
    if image.shape == shape:
        return image
    from PIL import Image  # needed for other sizes only

    method = Image.Resampling.BOX if shape[0] < image.shape[0] else Image.Resampling.NEAREST
    return np.asarray(Image.fromarray(image).resize((shape[1], shape[0]), method), np.uint8)


@dataclass(frozen=True, kw_only=True)
class Known:
    """Facts about an environment that its interface does not provide.

    Attributes:
        success: A value of the setting `success`; empty if it is not known.
        goal: One sentence; empty for none.
        actions: Names of the numbers of a discrete space; empty if the environment has its own.
        num_actions: Approximate number of actions to success if it exceeds the default length of an episode;
            else 0.
    """

    success: str | float = ""
    goal: str = ""
    actions: tuple[str, ...] = ()
    num_actions: int = 0


def known_of(module: str) -> Known:
    """Returns the known facts about an environment whose class is defined in a module."""
    known = tomllib.loads(Path(__file__).with_name("known_environments.toml").read_text(encoding="utf-8"))
    start = max((start for start in known if module.startswith(start)), key=len, default="")
    facts = known.get(start, {})
    return Known(**{**facts, "actions": tuple(facts.get("actions", ()))})
