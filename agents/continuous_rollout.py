"""Rollouts in which no episode waits for another: each goes on, and begins, as soon as its world has answered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from agents.agent import ContinuousAgent, Response, ended_by_agent, failed_turn, fits, make_turn, reset_arguments
from vlm_envs.trajectory import Observation, Trajectory, Turn
from vlm_envs.vector.running_episodes import Step
from vlm_envs.vector.vector_world import JoinedWorlds, VectorWorld

GATHER_S = 0.002
"""How long after an answer the next may come for both to be taken together, in seconds."""

Worlds = VectorWorld | JoinedWorlds
OnTurn = Callable[[int, Turn], None]
OnEpisode = Callable[[int, Trajectory], None]


def play_continuously(
    agent: ContinuousAgent,
    worlds: VectorWorld,
    seeds: Sequence[int],
    env_ids: Sequence[str],
    observations: Sequence[Observation],
    infos: Sequence[dict[str, Any]],
    on_turn: OnTurn | None = None,
    on_episode: OnEpisode | None = None,
    *,
    levels: Sequence[str] | None = None,
) -> dict[int, Trajectory]:
    """Returns the episodes of the worlds that were started, by their number.

    While worlds are stepped the agent answers others, and stops for none: it only waits when there is nobody to answer.

    Args:
        agent: Who acts.
        worlds: N worlds, just reset.
        seeds: N reset seeds.
        env_ids: N registered ids.
        observations: What they show.
        infos: With a `worker_error` where a world could not be reset.
        on_turn: Called after each turn with the number of its world.
        on_episode: Called with each episode as soon as it is over, and the number of its world.
        levels: N level texts that the worlds were reset to; None where seeds drew the levels.
    """
    agent.start(worlds)
    under_way = _UnderWay(agent, worlds)
    under_way.begin_all(range(len(seeds)), observations, infos)
    return under_way.play(_Trajectories(agent, seeds, env_ids, levels), on_turn, on_episode)


def play_from_resets(
    agent: ContinuousAgent,
    worlds: Worlds,
    seeds: Sequence[int],
    env_ids: Sequence[str],
    on_turn: OnTurn | None = None,
    on_episode: OnEpisode | None = None,
    *,
    levels: Sequence[str | None] | None = None,
) -> dict[int, Trajectory]:
    """Resets worlds and plays them, each as soon as it is reset; otherwise as `play_continuously`.

    A world that could not be reset is tried again when the others are through, in `VectorWorld.try_reset`'s way, and so
    is one whose worker was lost in another's reset before it had a turn: what cannot be started costs itself only.
    """
    worlds.cancel()
    agent.start(worlds)
    under_way, trajectories = _UnderWay(agent, worlds), _Trajectories(agent, seeds, env_ids, levels)
    under_way.reset(seeds, levels)
    played = under_way.play(trajectories, on_turn, on_episode)
    if again := sorted(under_way.not_started):
        mask = np.isin(np.arange(len(seeds)), again)
        observations, infos = worlds.try_reset(**reset_arguments(seeds, levels, reset_mask=mask))
        agent.restart(worlds)
        under_way = _UnderWay(agent, worlds)
        under_way.begin_all(again, observations, infos["env"])
        played |= under_way.play(trajectories, on_turn, on_episode)
    return played


class _Trajectories(NamedTuple):
    """What episodes are besides what happens in them."""

    agent: ContinuousAgent
    seeds: Sequence[int]
    env_ids: Sequence[str]
    levels: Sequence[str | None] | None

    def of(self, row: int, episode: _Episode) -> Trajectory:
        """Returns an episode that is over."""
        return Trajectory(
            env_id=self.env_ids[row],
            seed=self.seeds[row],
            turns=tuple(episode.turns),
            final_observation=episode.observation,
            start_state_hash=episode.start_hash,
            policy_version=self.agent.policy_version,
            level=(self.levels[row] or "") if self.levels else "",
        )


class _UnderWay:
    """Episodes whose agent or whose worlds have not answered yet.

    Attributes:
        not_started: Numbers of the worlds whose episode did not come about.
    """

    def __init__(self, agent: ContinuousAgent, worlds: Worlds) -> None:
        self._agent, self._worlds = agent, worlds
        self._episodes: dict[int, _Episode] = {}
        self._resetting: set[int] = set()
        self._stepped: dict[int, Response] = {}
        self.not_started: set[int] = set()

    def reset(self, seeds: Sequence[int], levels: Sequence[str | None] | None) -> None:
        """Has all worlds reset."""
        to_levels = {"levels": dict(enumerate(levels))} if levels else {}
        self._worlds.send_resets(dict(enumerate(seeds)), **to_levels)
        self._resetting = set(range(len(seeds)))

    def begin_all(
        self, rows: Iterable[int], observations: Sequence[Observation], infos: Sequence[dict[str, Any]]
    ) -> None:
        """Begins the episodes of those worlds that could be reset."""
        for row in rows:
            if "worker_error" not in infos[row]:
                self.begin(row, observations[row], infos[row])

    def begin(self, row: int, observation: Observation, info: dict[str, Any]) -> None:
        """Begins the episode of a world that was reset."""
        self._episodes[row] = _Episode(observation, info)
        self._agent.add_request(row, observation)

    def play(
        self, trajectories: _Trajectories, on_turn: OnTurn | None, on_episode: OnEpisode | None
    ) -> dict[int, Trajectory]:
        """Plays all that were begun, or are yet to be, and returns them."""
        played: dict[int, Trajectory] = {}
        while self._resetting or self._stepped or self._agent.has_unfinished_requests:
            for row in self._go_on():
                episode = self._episodes[row]
                if on_turn is not None:
                    on_turn(row, episode.turns[-1])
                if episode.is_over:
                    played[row] = trajectories.of(row, episode)
                    if on_episode is not None:
                        on_episode(row, played[row])
        return dict(sorted(played.items()))

    def _go_on(self) -> list[int]:
        """Takes what agent and worlds answer by now; returns the numbers of the worlds that have one turn more."""
        failed = self._answered() if self._agent.has_unfinished_requests else []
        if not self._stepped and not self._resetting:
            return failed
        done = self._done()
        resets = {row: done.pop(row) for row in self._resetting & done.keys()}
        # An episode that is over for want of room has its world still in a worker, whose end is no part of it
        done = {row: step for row, step in done.items() if self._is_under_way(row)}
        self._take_resets(resets, done)
        for row, step in done.items():
            self._received(row, step)
        return [*failed, *done]

    def _is_under_way(self, row: int) -> bool:
        return row in self._episodes and not self._episodes[row].is_over

    def _done(self) -> dict[int, Step]:
        """Takes what worlds have done by now; with nobody to answer, waits for some and for those that come with them.

        Whoever comes a moment later would have a pass of their own, which takes longer than that moment.
        """
        if self._agent.has_unfinished_requests:
            return self._worlds.recv(0.0)
        done = more = self._worlds.recv(None)
        while more and len(done) < len(self._stepped) + len(self._resetting):
            more = self._worlds.recv(GATHER_S)
            done |= more
        return done

    def _answered(self) -> list[int]:
        """Has worlds stepped whose agent has answered; returns those whose answer could not be had."""
        answers = self._agent.step()
        said = {row: response for row, response in answers.items() if response.stop_reason != "error"}
        if said:
            self._worlds.send({row: response.text for row, response in said.items()})
            self._stepped |= said
        failed = [row for row in answers if row not in said]
        for row in failed:
            self._episodes[row].fail(answers[row])
        return failed

    def _take_resets(self, resets: dict[int, Step], done: dict[int, Step]) -> None:
        """Begins the episodes of worlds that were reset, and takes out of what is done what a failed one has cost."""
        self._resetting -= resets.keys()
        failed = {row for row, reset in resets.items() if "worker_error" in reset.info}
        for row in sorted(resets.keys() - failed):
            self.begin(row, resets[row].observation, resets[row].info)
        if failed:  # a worker that was lost in it takes along what it had just reset
            lost = {row for row, step in done.items() if "worker_error" in step.info and not self._episodes[row].turns}
            for row in lost:
                done.pop(row)
                if self._stepped.pop(row, None) is None:
                    self._agent.abort(row)
            self.not_started |= failed | lost

    def _received(self, row: int, step: Step) -> None:
        """Takes what a step came to, and asks the agent again unless the episode is over."""
        episode = self._episodes[row]
        if row in self._stepped:
            episode.go_on(self._agent, row, self._stepped.pop(row), step)
        else:  # lost with the worker of another, while it was answered
            self._agent.abort(row)
            episode.lose(step)
        if not episode.is_over:
            self._agent.add_request(row, episode.observation)


class _Episode:
    """One that is under way, or over."""

    def __init__(self, observation: Observation, info: dict[str, Any]) -> None:
        self.observation, self.info = observation, info
        self.start_hash: str = info["state_hash"]
        self.turns: list[Turn] = []

    @property
    def is_over(self) -> bool:
        return bool(self.turns) and (self.turns[-1].terminated or self.turns[-1].truncated)

    def go_on(self, agent: ContinuousAgent, row: int, response: Response, step: Step) -> None:
        """Adds the turn that a step was; it is the last if there is no room for another."""
        ends = {"terminated": step.terminated, "truncated": step.truncated}
        info, ends = ended_by_agent(response, step.info, ends)
        if not any(ends.values()) and not fits(agent, row, step.observation):
            ends, info = {**ends, "truncated": True}, {**info, "context_full": True}
        self.turns.append(make_turn(self.observation, self.info, response, info, step.reward, **ends))
        self.observation, self.info = step.observation, info

    def fail(self, response: Response) -> None:
        """Adds the turn of a response that could not be had."""
        self.turns.append(failed_turn(self.observation, self.info, response))

    def lose(self, step: Step) -> None:
        """Adds the turn in which the world was lost before there was a response."""
        nothing = Response(text="", stop_reason="error", error=step.info["worker_error"])
        self.turns.append(make_turn(self.observation, self.info, nothing, step.info, truncated=True))
