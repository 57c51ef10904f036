"""The world under test: its planner, episodes, hostile responses, and how a check reports a failure."""

from __future__ import annotations

import hashlib
import importlib
import itertools
import math
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import gymnasium as gym
import numpy as np

from vlm_envs.errors import LevelError, SolverLimitError, WorldContractError
from vlm_envs.parts import Dynamics
from vlm_envs.registration import make, not_a_world
from vlm_envs.responses.parsing import MAX_RESPONSE_CHARS, READINGS
from vlm_envs.splits import split_seeds
from vlm_envs.trajectory import Observation
from vlm_envs.user_code import fault_in_world
from vlm_envs.world import World

_AT_LIMIT: Any = object()


class Planner:
    """Plans of a world's states, cached so that the world's own planner is called once per state."""

    def __init__(self) -> None:
        self._answers: dict[tuple[str, Hashable], Any] = {}

    def plan(self, world: World[Any, Any]) -> tuple[Any, ...] | None:
        """Returns an optimal plan for the current state; None without a planner, or if it stops at its limit."""
        plan: tuple[Any, ...] | None = self._asked("plan", world.dynamics, world.state)
        return None if plan is _AT_LIMIT else plan

    def cost_to_go(self, dynamics: Dynamics[Any, Any], state: Any) -> float | None:
        """Returns the number of actions in an optimal plan: 0 if the task is solved, infinity if there is no plan.

        None if the planner stops at its limit.
        """
        if dynamics.is_success(state):
            return 0
        is_length = type(dynamics).cost_to_go is Dynamics.cost_to_go
        answer = self._asked("plan" if is_length else "cost_to_go", dynamics, state)
        if answer is _AT_LIMIT:
            return None
        return math.inf if answer is None else len(answer) if is_length else answer

    def _asked(self, method: str, dynamics: Dynamics[Any, Any], state: Any) -> Any:
        """Returns the result of a method of the dynamics for a state, calling it only once per state."""
        key = method, _key(dynamics, state)
        if key not in self._answers:
            try:
                self._answers[key] = getattr(dynamics, method)(state)
            except SolverLimitError:
                self._answers[key] = _AT_LIMIT
        return self._answers[key]


def has_planner(world: World[Any, Any]) -> bool:
    """Returns whether a world's dynamics have their own planner."""
    return type(world.dynamics).plan is not Dynamics.plan


def _key(dynamics: Dynamics[Any, Any], state: Any) -> Hashable:
    """Returns the state itself if it is hashable, else its level text."""
    try:
        hash(state)
    except TypeError:
        return dynamics.dump(state)
    return state  # type: ignore[no-any-return]


AnyWorld = World[Any, Any]

TOLERANCE = 1e-9
"""Rewards that differ by less than this are equal."""


@dataclass(frozen=True, kw_only=True)
class WorldUnderTest:
    """The world under test.

    Attributes:
        env_id: Its registered id.
        kwargs: Arguments that it is created with.
        planner: Its plans, shared by all checks.
    """

    env_id: str
    kwargs: dict[str, Any] = field(default_factory=dict)
    planner: Planner = field(default_factory=Planner)

    def make(self, **overrides: Any) -> AnyWorld:
        """Returns a new world, without Gymnasium's wrappers."""
        try:
            world = make(self.env_id, disable_env_checker=True, **{**self.kwargs, **overrides}).unwrapped
        except SystemExit as error:
            raise WorldContractError(f"the world cannot be created: {described(error)}") from error
        require(isinstance(world, World), not_a_world(self.env_id))
        return cast(AnyWorld, world)


class NotApplicableError(Exception):
    """Raised by a check whose clause does not apply to a world; recorded as skipped."""


def require(condition: bool, message: str) -> None:
    """Raises `WorldContractError` with the message unless the condition holds."""
    if not condition:
        raise WorldContractError(message)


def described(error: Exception | SystemExit) -> str:
    """Returns the violation that a check found, or the place where the world's own code failed."""
    if isinstance(error, WorldContractError):
        return str(error)
    return fault_in_world(error) or f"{type(error).__name__}: {error}"


def expect_error(expected: type[Exception], what: str, misuse: Callable[[], object]) -> None:
    """Raises `WorldContractError` unless a misuse raises the expected error."""
    try:
        misuse()
    except expected:
        return
    except (Exception, SystemExit) as error:
        raise WorldContractError(f"{what} raises {type(error).__name__}, should raise {expected.__name__}") from error
    raise WorldContractError(f"{what} raises nothing, should raise {expected.__name__}")


BAD_RESPONSES: dict[str, str] = {
    "empty": "",
    "blank": " \n\t ",
    "prose": "I would go left, I think.",
    "unicode": "Ж世界🙂\u202e\u0301",
    "huge": "<answer>" * 125_000,
    "surrogates": "<answer>\ud800\udfff\ud800</answer>",
    "nul": "\x00<answer>\x00</answer>",
    "nested": "<think><answer><think></answer></think>",
}
"""Responses that a model may give but no world can read."""


MAX_SHOWN_CHARS = 120
"""Levels and actions longer than this are truncated in messages."""


def actions_per_turn(world: AnyWorld) -> int:
    """Returns the number of actions that a response can contain."""
    return world.max_actions_per_turn if world.task.grammar.separator else 1


def oracle_responses(world: AnyWorld, plan: Sequence[Any]) -> Iterator[str]:
    """Yields the responses that carry out a plan, each with one turn's actions."""
    size = actions_per_turn(world)
    for start in range(0, len(plan), size):
        yield world.write_response(plan[start : start + size])


class Move(NamedTuple):
    """One action, carried out by the dynamics alone.

    Attributes:
        where: The level and the previous actions, for messages.
        where_after: The level and the actions including this one.
        before: State before the action.
        action: The action, as the task writes it.
        after: State after the action.
        is_planned: Whether it is the next action of the plan computed at the level's start.
    """

    where: str
    where_after: str
    before: Any
    action: str
    after: Any
    is_planned: bool


def moves(world: AnyWorld, seed: int, plan: Sequence[Any], num_random: int) -> Iterator[Move]:
    """Yields the moves of a level's plan, a random action from each state along it, and the moves of a random walk.

    Args:
        world: A world that was reset to the level.
        seed: The level's seed.
        plan: The level's plan; may be empty.
        num_random: Length of the random walk.
    """
    dynamics, task, rng = world.dynamics, world.task, np.random.default_rng(seed)
    start = world.state
    level = f"seed {seed} ({_shown(dynamics.dump(start))})"

    def move(before: Any, done: Sequence[str], action: Any, *, is_planned: bool = False) -> Move:
        after, _ = dynamics.step(before, action, rng)
        written = _shown(task.write_action(action))
        where = f"{level} after {', '.join(done)}" if done else level
        return Move(where, f"{level} after {', '.join([*done, written])}", before, written, after, is_planned)

    for is_planned, count in ((True, len(plan)), (False, num_random)):
        state, done = start, list[str]()
        for number in range(count):
            if dynamics.is_over(state) or dynamics.is_out_of_time(state):
                break
            tried = move(state, done, task.sample_action(state, rng))
            yield tried
            if is_planned:
                tried = move(state, done, plan[number], is_planned=True)
                yield tried
            state = tried.after
            done.append(tried.action)


def _shown(text: str) -> str:
    """Returns a level or an action for a message, on one line."""
    line = text.strip().replace("\n", " / ")
    return line if len(line) <= MAX_SHOWN_CHARS else f"{line[:MAX_SHOWN_CHARS]}…"


def episode_digest(world: AnyWorld, seed: int, planner: Planner) -> str:
    """Returns the hexadecimal BLAKE2b of all bytes that a random episode shows; the seed also draws its responses."""
    observation, info = world.reset(seed=seed)
    digest = hashlib.blake2b(digest_size=16)
    _absorb(digest, observation)
    _absorb(digest, info)
    _play(world, seed, digest, planner)
    return digest.hexdigest()


def _play(world: AnyWorld, seed: int, digest: hashlib.blake2b, planner: Planner) -> None:
    """Plays an episode to its end with shuffled parts of the oracle's plan, or random actions, and some nonsense."""
    rng = np.random.default_rng(seed)
    over = False
    while not over:
        plan = planner.plan(world)
        if plan is None:
            plan = tuple(world.task.sample_action(world.state, rng) for _ in range(world.max_actions_per_turn))
        picks = [plan[i] for i in rng.permutation(len(plan))[: world.max_actions_per_turn]]
        sensible = bool(picks) and rng.random() < 0.8
        response = world.write_response(picks[: actions_per_turn(world)]) if sensible else BAD_RESPONSES["unicode"]
        observation, reward, terminated, truncated, info = world.step(response)
        for part in (observation, reward, terminated, truncated, info):
            _absorb(digest, part)
        over = terminated or truncated


def _absorb(digest: hashlib.blake2b, part: Any) -> None:
    """Adds a value to a digest; mappings and sequences part by part, so that arrays are hashed byte by byte."""
    if isinstance(part, np.ndarray):
        digest.update(f"{part.dtype}{part.shape}".encode() + part.tobytes())
    elif isinstance(part, dict):
        for key, value in part.items():
            digest.update(repr(key).encode())
            _absorb(digest, value)
    elif isinstance(part, list | tuple):
        digest.update(f"{type(part).__name__}{len(part)}".encode())
        for value in part:
            _absorb(digest, value)
    else:
        digest.update(f"{type(part).__name__} {part!r}".encode())


def rest_of_episode(world: AnyWorld, planner: Planner) -> str:
    """Plays to the end and through one more episode, unseeded; returns the digest of both."""
    digest = hashlib.blake2b(digest_size=16)
    _play(world, 11, digest, planner)
    _absorb(digest, world.reset())
    _play(world, 12, digest, planner)
    return digest.hexdigest()


def first_seed(world: AnyWorld) -> int:
    """Returns the first seed of the world's split."""
    return next(split_seeds(world.split, 1))


def transitions(world: AnyWorld, planner: Planner) -> Iterator[tuple[str, Observation, float, dict[str, Any]]]:
    """Yields (where, observation, reward, info) of an oracle's episode, then of one with an invalid first response.

    Without a plan, actions are random.
    """
    for opening in ((), (BAD_RESPONSES["prose"],)):
        observation, info = world.reset(seed=first_seed(world))
        yield "reset", observation, 0.0, info
        for number, response in enumerate(itertools.chain(opening, _rest_by_oracle(world, planner)), start=1):
            observation, reward, terminated, truncated, info = world.step(response)
            yield f"step {number}", observation, reward, info
            if terminated or truncated:
                break


def _rest_by_oracle(world: AnyWorld, planner: Planner) -> Iterator[str]:
    """Yields the oracle's responses, planned when the first is requested; random ones without a plan."""
    plan = planner.plan(world)
    if plan is None:
        rng = np.random.default_rng(0)
        num_actions = world.max_turns * actions_per_turn(world)
        plan = tuple(world.task.sample_action(world.state, rng) for _ in range(num_actions))
    yield from oracle_responses(world, plan)


EPISODE_SEED = 7
_TIMEOUT_S = 120


def digest_elsewhere(under_test: WorldUnderTest, entry_point: str) -> str:
    """Returns the episode's digest in a new process with another `PYTHONHASHSEED`.

    Raises:
        WorldContractError: If the episode cannot be played there.
    """
    hash_seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    child = subprocess.run(
        [sys.executable, "-c", f"from {__name__} import print_digest; print_digest()"],
        input=pickle.dumps((under_test.env_id, entry_point, {**_registered_kwargs(under_test), **under_test.kwargs})),
        capture_output=True,
        timeout=_TIMEOUT_S,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    require(child.returncode == 0, f"the episode fails in another process: {child.stderr.decode()[-2000:]}")
    return child.stdout.decode().strip()


def _registered_kwargs(under_test: WorldUnderTest) -> dict[str, Any]:
    return dict(gym.spec(under_test.env_id.removeprefix("vlm_envs:")).kwargs)


def print_digest() -> None:
    """Prints the digest of the episode requested on standard input; runs in the other process."""
    request: tuple[str, str, dict[str, Any]] = pickle.load(sys.stdin.buffer)
    env_id, entry_point, kwargs = request
    importlib.import_module(entry_point.partition(":")[0])
    if env_id.removeprefix("vlm_envs:") not in gym.registry:
        gym.register(env_id, entry_point=entry_point)
    under_test = WorldUnderTest(env_id=env_id, kwargs=kwargs)
    print(episode_digest(under_test.make(), EPISODE_SEED, under_test.planner))


HOSTILE_NUMBERS = ("abc", "-1", "99999999999", "1e400", "0.5", "²", "9" * 5_000, "")
"""Texts in place of a number. Python's `int` accepts at most 4,300 digits, and "²" is a digit for `str.isdigit`."""

HOSTILE_BODIES = (
    *HOSTILE_NUMBERS,
    *("nan", "None", "0x10", "٣", "\x00", "\ud800", "\\", "%s{0}", ",", ";", "()", "[]", "{}", '"', "'"),
    *('{"name": null}', '{"name": "abc", "arguments": {"abc": -1}}', "<svg", "a b c d e f g h"),
)
"""Texts in place of an action."""

_LONG = ("x", "9", "[", '{"a":', " ,")
"""Parts that are repeated up to the maximum length of a response."""

_REMARK = "\nThat is all."
_MAX_SHOWN_CHARS = 60


def hostile_answers_are_data(under_test: WorldUnderTest) -> None:
    """No text in place of an action raises, in either reading; invalid actions are explained and have no effect."""
    for reading in READINGS:
        world = under_test.make(reading=reading)
        has_later = world.response_format.later is not None and world.max_turns > 1
        for num_turns_before in range(2 if has_later else 1):
            info = _info_at(world, num_turns_before)
            for shown, response in [*hostile_responses(world)]:
                said = (
                    response if reading == "strict" else response + _REMARK
                )  # a remark that only lenient reading ignores
                info, is_over = _answered(world, said, f"the response {shown}", info)
                if is_over or has_later:
                    info = _info_at(world, num_turns_before)
        world.close()


def _info_at(world: AnyWorld, num_turns_before: int) -> dict[str, Any]:
    """Resets the world, passes some turns with empty responses, and returns the last `info`."""
    _, info = world.reset(seed=first_seed(world))
    for _ in range(num_turns_before):
        *_, info = world.step("")
    return info


def _answered(world: AnyWorld, response: str, where: str, before: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Returns `info` after a response that must not raise an exception, and whether the episode is over."""
    try:
        observation, reward, terminated, truncated, info = world.step(response)
    except (Exception, SystemExit) as error:
        raise WorldContractError(
            f"{where} raises {described(error)}. A grammar's parse must return None for text that is not an action, "
            "and step must accept every action that parse returns"
        ) from error
    require(observation in world.observation_space, f"{where}: not in {world.observation_space}")
    require(math.isfinite(reward), f"{where}: earns {reward}, which is not finite")
    if info["parse_error"] is not None:
        require_explained(world, where, before, observation, reward, info)
    return info, terminated or truncated


def require_explained(
    world: AnyWorld, where: str, before: dict[str, Any], observation: Observation, reward: float, info: dict[str, Any]
) -> None:
    """Raises `WorldContractError` unless a bad response was explained, earned no format reward, and had no effect."""
    error, noop = info["parse_error"], sum(world.task.noop_terms().values())
    require(not info["format_correct"], f"{where}: counts as correct format")
    require("format" not in info["reward_terms"], f"{where}: earns the format reward")
    require(bool(error), f"{where}: info['parse_error'] does not explain it")
    require(error in observation["text"], f"{where}: the next observation does not explain it")
    if info["actions_read"]:
        return
    require(info["state_hash"] == before["state_hash"], f"{where}: changes the state")
    require(abs(reward - noop) < TOLERANCE, f"{where}: earns {reward}, a no-op earns {noop}")


def hostile_responses(world: AnyWorld) -> Iterator[tuple[str, str]]:
    """Yields responses in the format that the world expects now, and their descriptions for messages.

    Each contains one hostile text, in one of the sections that can contain actions: a text from above, or a
    random action with its numbers replaced.
    """
    turn_format = world.turn_format
    thoughts = {name: "" for name in turn_format.sections if name not in turn_format.endings}
    action = world.task.sample_action(world.state, np.random.default_rng(0))
    written = world.task.action_sections((action,), thoughts)
    for section in turn_format.action_sections:
        room = MAX_RESPONSE_CHARS - len(turn_format.write(thoughts | {section: ""})) - len(_REMARK)
        longest = (piece * (room // len(piece)) for piece in _LONG)
        for body in (*HOSTILE_BODIES, *_with_other_numbers(written.get(section, "")), *longest):
            shown = body if len(body) <= _MAX_SHOWN_CHARS else f"{body[:_MAX_SHOWN_CHARS]}…"
            yield repr(f"<{section}>{shown}</{section}>"), turn_format.write(thoughts | {section: body})


def require_level_errors(world: AnyWorld) -> None:
    """Raises `WorldContractError` unless hostile text in place of a level loads or raises `LevelError`."""
    world.reset(seed=first_seed(world))
    for level in (*HOSTILE_BODIES, *_with_other_numbers(world.dynamics.dump(world.state))):
        try:
            world.reset(options={"level": level})
        except LevelError:
            continue
        except (Exception, SystemExit) as error:
            raise WorldContractError(
                f"the level {level[:_MAX_SHOWN_CHARS]!r} raises {described(error)}. load must raise LevelError for "
                "text that is not a level"
            ) from error


def _with_other_numbers(text: str) -> Iterator[str]:
    """Yields a text with each number replaced; empty if it contains none."""
    number = re.compile(r"-?\d+(?:\.\d+)?")
    if number.search(text):
        yield from (number.sub(other, text) for other in HOSTILE_NUMBERS)
