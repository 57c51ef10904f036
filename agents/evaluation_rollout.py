"""Many episodes of one world, one after another, none of them waiting for a slower one where the agent allows it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any, NamedTuple

import numpy as np

from agents.agent import Agent, AsyncAgent, Response, ended_by_agent, failed_turn, make_turn
from agents.rollout import try_rollout
from vlm_envs.trajectory import Observation, Trajectory, Turn
from vlm_envs.vector.running_episodes import Step
from vlm_envs.vector.vector_world import VectorWorld

POLL_S = 0.01
"""How long worlds that are busy are waited for before an agent's answers are looked for again, in seconds."""


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
        while queue or seats.is_busy:
            if queue and not goes_on():
                queue.clear()
            seats.fill(queue)
            yield from seats.go_on()
            if not seats.is_busy:
                yield from seats.try_again()
    finally:
        for future in seats.pending:
            future.cancel()


class _Seats:
    """The worlds of a vector, each with an episode of its own that is under way, or free."""

    def __init__(self, agent: AsyncAgent, worlds: VectorWorld, env_id: str) -> None:
        self.agent, self.worlds, self.env_id = agent, worlds, env_id
        self.pending: dict[Future[Response], int] = {}
        worlds.cancel()
        self._free = list(range(worlds.num_envs))
        self._was_reset: set[int] = set()
        self._resetting: set[int] = set()
        self._stepped: dict[int, Response] = {}
        self._lost: dict[int, Step] = {}
        self._lost_in_reset: set[int] = set()
        self._not_started: list[tuple[int, int]] = []
        self._failed: list[int] = []
        self._index: dict[int, int] = {}
        self._seed: dict[int, int] = {}
        self._shown: dict[int, Observation] = {}
        self._info: dict[int, dict[str, Any]] = {}
        self._start_hash: dict[int, str] = {}
        self._turns: dict[int, list[Turn]] = {}

    @property
    def is_busy(self) -> bool:
        """Whether an answer is awaited, of the agent or of a world."""
        return bool(self.pending or self._resetting or self._stepped)

    def fill(self, queue: deque[tuple[int, int]]) -> None:
        """Has the world of every free seat reset, as far as there are episodes to begin."""
        rows = self._seated(queue)
        if rows:
            self.worlds.send_resets({row: self._seed[row] for row in rows})
            self._resetting |= {*rows}

    def _seated(self, queue: deque[tuple[int, int]]) -> list[int]:
        rows = self._free[: len(queue)]
        del self._free[: len(rows)]
        for row in rows:
            self._index[row], self._seed[row] = queue.popleft()
        return rows

    def try_again(self) -> Iterator[Played]:
        """Begins what was not started, once nobody is busy; yields those whose world cannot be started."""
        queue, self._not_started = deque(self._not_started), []
        self._free, self._failed = [*self._free, *self._failed], []
        rows = self._seated(queue)
        self._not_started.extend(queue)
        if not rows:
            return
        mask = np.array([row in rows or row not in self._was_reset for row in range(self.worlds.num_envs)])
        seeds = [self._seed.get(row, self._seed[rows[0]]) for row in range(self.worlds.num_envs)]
        observations, infos = self.worlds.try_reset(seed=seeds, options={"reset_mask": mask})
        self._was_reset |= {*range(self.worlds.num_envs)}
        for row in rows:
            if "worker_error" in infos["env"][row]:
                self._free.append(row)
                yield Played(self._index[row], None)
            else:
                self._begin(row, observations[row], infos["env"][row])

    def _begin(self, row: int, observation: Observation, info: dict[str, Any]) -> None:
        self._shown[row], self._info[row] = observation, info
        self._start_hash[row], self._turns[row] = info["state_hash"], []
        self.agent.begin(row)
        self._ask(row)

    def go_on(self) -> Iterator[Played]:
        """Takes what agent and worlds answer by now, at least one answer, and yields the episodes that are over."""
        if self.pending:
            waits_for_worlds = bool(self._resetting or self._stepped)
            done, _ = wait(self.pending, 0.0 if waits_for_worlds else None, return_when=FIRST_COMPLETED)
            yield from self._answered({self.pending.pop(future): future.result() for future in done})
        if self._resetting or self._stepped:
            yield from self._received(self.worlds.recv(POLL_S if self.pending else None))

    def _answered(self, responses: dict[int, Response]) -> Iterator[Played]:
        """Has worlds stepped that were answered."""
        said: dict[int, Response] = {}
        for row, response in responses.items():
            if row in self._lost:
                yield from self._lose(row)
            elif response.stop_reason == "error":
                self._turns[row].append(failed_turn(self._shown[row], self._info[row], response))
                yield self._over(row)
            else:
                said[row] = response
        if said:
            self.worlds.send({row: response.text for row, response in said.items()})
            self._stepped |= said

    def _received(self, done: dict[int, Step]) -> Iterator[Played]:
        """Begins the episodes of worlds that were reset, and goes on with those of worlds that were stepped."""
        resets = {row: done.pop(row) for row in self._resetting & done.keys()}
        self._resetting -= resets.keys()
        self._was_reset |= resets.keys()
        failed = [row for row, reset in resets.items() if "worker_error" in reset.info]
        for row in failed:
            self._not_started.append((self._index[row], self._seed[row]))
        self._failed += failed  # Their worlds are left alone for now: each attempt may cost others their worker
        for row in sorted(resets.keys() - {*failed}):
            self._begin(row, resets[row].observation, resets[row].info)
        asked = {*self.pending.values()}
        for row, step in done.items():
            response = self._stepped.pop(row, None)
            if response is None and row not in asked:
                continue  # its episode is over already: the world of one whose answer could not be had is left running
            if "worker_error" in step.info and failed and not self._turns[row]:
                self._lost_in_reset.add(row)
            if response is None:  # lost with another's worker: its answer is awaited all the same
                self._lost[row] = step
            elif row in self._lost_in_reset:
                self._put_off(row)
            else:
                yield from self._took(row, response, step)

    def _took(self, row: int, response: Response, step: Step) -> Iterator[Played]:
        """Adds the turn that a step was, and asks again unless the episode is over."""
        ends = {"terminated": step.terminated, "truncated": step.truncated}
        info, ends = ended_by_agent(response, step.info, ends)
        turn = make_turn(self._shown[row], self._info[row], response, info, step.reward, **ends)
        self._turns[row].append(turn)
        self._shown[row], self._info[row] = step.observation, info
        if any(ends.values()):
            yield self._over(row)
        else:
            self._ask(row)

    def _lose(self, row: int) -> Iterator[Played]:
        """Ends an episode that was lost while it was answered, or puts it off if a reset was to blame."""
        step = self._lost.pop(row)
        if row in self._lost_in_reset:
            self._put_off(row)
            return
        nothing = Response(text="", stop_reason="error", error=step.info["worker_error"])
        self._turns[row].append(make_turn(self._shown[row], self._info[row], nothing, step.info, truncated=True))
        yield self._over(row)

    def _put_off(self, row: int) -> None:
        """Leaves an episode whose worker was lost in another's reset until the others are over."""
        self._lost_in_reset.discard(row)
        self._free.append(row)
        self._not_started.append((self._index[row], self._seed[row]))

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
