"""Many episodes of one world, one after another, none of them waiting for a slower one where the agent allows it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any, NamedTuple

import numpy as np

from agents.agent import Agent, AsyncAgent, Response
from agents.rollout import try_rollout
from agents.turns import failed_turn, make_turn
from vlm_envs.trajectory import Observation, Trajectory, Turn
from vlm_envs.vector.env import VectorWorld


class Played(NamedTuple):
    """An episode that is over.

    Attributes:
        number: Which of the seeds it is, from 0.
        trajectory: The episode; None where the world could not be started.
    """

    number: int
    trajectory: Trajectory | None


def play_episodes(
    agent: Agent,
    worlds: VectorWorld,
    seeds: Sequence[int],
    *,
    env_id: str,
    goes_on: Callable[[], bool] = lambda: True,
) -> Iterator[Played]:
    """Plays one episode of every seed, as many at once as there are worlds.

    Args:
        agent: Who acts. One that answers each episode by itself (`AsyncAgent`) begins the next as soon as one is over;
            any other plays in batches.
        worlds: Worlds of one kind.
        seeds: Reset seeds.
        env_id: Their id, for the record.
        goes_on: Asked before episodes begin; once it says no, only those under way are played to their end.

    Yields:
        Episodes as they end.
    """
    if isinstance(agent, AsyncAgent):
        yield from _play_async(agent, worlds, seeds, env_id, goes_on)
    else:
        yield from _play_batches(agent, worlds, seeds, env_id, goes_on)


def _play_batches(
    agent: Agent, worlds: VectorWorld, seeds: Sequence[int], env_id: str, goes_on: Callable[[], bool]
) -> Iterator[Played]:
    for start in range(0, len(seeds), worlds.num_envs):
        if not goes_on():
            return
        batch = list(seeds[start : start + worlds.num_envs])
        filled = batch + batch[-1:] * (worlds.num_envs - len(batch))  # A vector has no seats that stay empty
        episodes = try_rollout(agent, worlds, filled, env_ids=[env_id] * len(filled))
        yield from (Played(start + row, episode) for row, episode in enumerate(episodes[: len(batch)]))


def _play_async(
    agent: AsyncAgent, worlds: VectorWorld, seeds: Sequence[int], env_id: str, goes_on: Callable[[], bool]
) -> Iterator[Played]:
    seats = _Seats(agent, worlds, env_id)
    queue = deque(enumerate(seeds))
    try:
        while queue or seats.pending:
            if queue and not goes_on():
                queue.clear()
            yield from seats.fill(queue)
            yield from seats.go_on()
    finally:
        for future in seats.pending:
            future.cancel()


class _Seats:
    """The worlds of a vector, each with an episode of its own that is under way, or free."""

    def __init__(self, agent: AsyncAgent, worlds: VectorWorld, env_id: str) -> None:
        self.agent, self.worlds, self.env_id = agent, worlds, env_id
        self.pending: dict[Future[Response], int] = {}
        self._free = list(range(worlds.num_envs))
        self._was_reset = False
        self._index: dict[int, int] = {}
        self._seed: dict[int, int] = {}
        self._shown: dict[int, Observation] = {}
        self._info: dict[int, dict[str, Any]] = {}
        self._start_hash: dict[int, str] = {}
        self._turns: dict[int, list[Turn]] = {}

    def fill(self, queue: deque[tuple[int, int]]) -> Iterator[Played]:
        """Begins an episode in every free seat; yields those whose world could not be started."""
        rows = self._free[: len(queue)]
        if not rows:
            return
        del self._free[: len(rows)]
        for row in rows:
            self._index[row], self._seed[row] = queue.popleft()
        mask = np.isin(np.arange(self.worlds.num_envs), rows)
        if not self._was_reset:  # Before its first reset a vector resets all of its worlds
            mask[:], self._was_reset = True, True
        spare = self._seed[rows[0]]
        seeds = [self._seed.get(row, spare) if each else None for row, each in enumerate(mask)]
        observations, infos = self.worlds.try_reset(seed=seeds, options={"reset_mask": mask})
        for row in rows:
            info = infos["env"][row]
            if "worker_error" in info:
                self._free.append(row)
                yield Played(self._index[row], None)
                continue
            self._shown[row], self._info[row] = observations[row], info
            self._start_hash[row], self._turns[row] = info["state_hash"], []
            self.agent.begin(row)
            self._ask(row)

    def go_on(self) -> Iterator[Played]:
        """Waits for an answer, carries out all there are, and yields the episodes that are over."""
        if not self.pending:
            return
        done, _ = wait(self.pending, return_when=FIRST_COMPLETED)
        responses = {self.pending.pop(future): future.result() for future in done}
        for row in [row for row, response in responses.items() if response.stop_reason == "error"]:
            self._turns[row].append(failed_turn(self._shown[row], self._info[row], responses.pop(row)))
            yield self._over(row)
        if not responses:
            return
        actions = [responses[row].text if row in responses else None for row in range(self.worlds.num_envs)]
        observations, rewards, terminated, truncated, infos = self.worlds.step(actions)
        for row, response in responses.items():
            ends = {"terminated": bool(terminated[row]), "truncated": bool(truncated[row])}
            outcome = infos["env"][row]
            turn = make_turn(self._shown[row], self._info[row], response, outcome, float(rewards[row]), **ends)
            self._turns[row].append(turn)
            self._shown[row], self._info[row] = observations[row], outcome
            if terminated[row] or truncated[row]:
                yield self._over(row)
            else:
                self._ask(row)

    def _ask(self, row: int) -> None:
        self.pending[self.agent.submit(row, self._shown[row])] = row

    def _over(self, row: int) -> Played:
        self._free.append(row)
        trajectory = Trajectory(
            env_id=self.env_id,
            seed=self._seed[row],
            turns=tuple(self._turns[row]),
            final_observation=self._shown[row],
            start_state_hash=self._start_hash[row],
            policy_version=self.agent.policy_version,
        )
        return Played(self._index[row], trajectory)
