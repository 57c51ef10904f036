"""Episodes played by the oracle, by chance and by nonsense, for checks and for digests."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vlm_envs.splits import split_seeds
from vlm_envs.testing.planner import Planner
from vlm_envs.testing.world_under_test import AnyWorld
from vlm_envs.trajectory import Observation

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
"""What a model may say although no world understands it."""


MAX_SHOWN_CHARS = 120
"""Longer levels and actions are cut in messages."""


def oracle_responses(world: AnyWorld, plan: Sequence[Any]) -> Iterator[str]:
    """Yields the responses that carry out a plan, a turn's worth of actions each."""
    size = world.max_actions_per_turn if world.task.grammar.separator else 1
    for start in range(0, len(plan), size):
        yield world.write_response(plan[start : start + size])


@dataclass(frozen=True, kw_only=True)
class Move:
    """One action, carried out by the dynamics alone.

    Attributes:
        where: The level and the actions before, for messages.
        before: State before the action.
        action: The action, as the task writes it.
        after: State after it.
        is_planned: Whether it is the next action of the plan that was made at the level's start.
    """

    where: str
    before: Any
    action: str
    after: Any
    is_planned: bool = False

    @property
    def where_after(self) -> str:
        """The level and the actions, this one included."""
        return f"{self.where}, {self.action}" if " after " in self.where else f"{self.where} after {self.action}"


def moves(world: AnyWorld, seed: int, plan: Sequence[Any], num_random: int) -> Iterator[Move]:
    """Yields the moves of a level's plan, a random action from each state on its way, and the moves of a random walk.

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
        where = f"{level} after {', '.join(done)}" if done else level
        after, _ = dynamics.step(before, action, rng)
        written = _shown(task.write_action(action))
        return Move(where=where, before=before, action=written, after=after, is_planned=is_planned)

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
    """Returns the hexadecimal BLAKE2b of all bytes a random episode shows; the seed also draws what is said in it."""
    observation, info = world.reset(seed=seed)
    digest = hashlib.blake2b(digest_size=16)
    _absorb(digest, observation)
    _absorb(digest, info)
    _play(world, seed, digest, planner)
    return digest.hexdigest()


def _play(world: AnyWorld, seed: int, digest: hashlib.blake2b, planner: Planner) -> None:
    """Plays an episode to its end with shuffled pieces of the oracle's plan, or at random, and some nonsense."""
    rng = np.random.default_rng(seed)
    over = False
    while not over:
        plan = planner.plan(world)
        if plan is None:
            plan = tuple(world.task.sample_action(world.state, rng) for _ in range(world.max_actions_per_turn))
        picks = [plan[i] for i in rng.permutation(len(plan))[: world.max_actions_per_turn]]
        sensible = bool(picks) and rng.random() < 0.8
        size = world.max_actions_per_turn if world.task.grammar.separator else 1
        response = world.write_response(picks[:size]) if sensible else BAD_RESPONSES["unicode"]
        observation, reward, terminated, truncated, info = world.step(response)
        for part in (observation, reward, terminated, truncated, info):
            _absorb(digest, part)
        over = terminated or truncated


def _absorb(digest: hashlib.blake2b, part: Any) -> None:
    """Adds a value to a digest; mappings and sequences part by part, so that arrays count byte by byte."""
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
    """Yields (where, observation, reward, info) of an oracle's episode, then of one with a bad first turn.

    Where there is no plan, actions are random.
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
    """Yields the oracle's responses, planned when the first is asked for; random ones without a plan."""
    plan = planner.plan(world)
    if plan is None:
        rng = np.random.default_rng(0)
        num_actions = world.max_turns * (world.max_actions_per_turn if world.task.grammar.separator else 1)
        plan = tuple(world.task.sample_action(world.state, rng) for _ in range(num_actions))
    yield from oracle_responses(world, plan)
