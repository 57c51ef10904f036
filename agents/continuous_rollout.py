"""Rollouts in which no episode waits for another: each goes on as soon as its world has answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agents.agent import ContinuousAgent, Response
from agents.turns import failed_turn, fits, make_turn
from vlm_envs.trajectory import Observation, Trajectory, Turn
from vlm_envs.vector.env import VectorWorld
from vlm_envs.vector.episodes import Step

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
    """
    episodes = {
        row: _Episode(observations[row], infos[row]) for row in range(len(seeds)) if "worker_error" not in infos[row]
    }
    agent.start(worlds)
    for row, episode in episodes.items():
        agent.add_request(row, episode.observation)
    under_way = _UnderWay(agent, worlds, episodes)
    played: dict[int, Trajectory] = {}
    while under_way:
        for row in under_way.go_on():
            if on_turn is not None:
                on_turn(row, episodes[row].turns[-1])
            if episodes[row].is_over:
                played[row] = episodes[row].trajectory(env_ids[row], seeds[row], agent.policy_version)
                if on_episode is not None:
                    on_episode(row, played[row])
    return {row: played[row] for row in episodes}


class _UnderWay:
    """Episodes whose agent or whose worlds have not answered yet."""

    def __init__(self, agent: ContinuousAgent, worlds: VectorWorld, episodes: Mapping[int, _Episode]) -> None:
        self._agent, self._worlds, self._episodes = agent, worlds, episodes
        self._stepped: dict[int, Response] = {}

    def __bool__(self) -> bool:
        return bool(self._stepped or self._agent.has_unfinished_requests)

    def go_on(self) -> list[int]:
        """Takes what agent and worlds answer by now; returns the numbers of the worlds that have one turn more."""
        failed = self._answered() if self._agent.has_unfinished_requests else []
        if not self._stepped:
            return failed
        done = self._worlds.recv(0.0 if self._agent.has_unfinished_requests else None)
        for row, step in done.items():
            self._received(row, step)
        return [*failed, *done]

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

    def trajectory(self, env_id: str, seed: int, policy_version: int) -> Trajectory:
        """Returns the episode, which is over."""
        return Trajectory(
            env_id=env_id,
            seed=seed,
            turns=tuple(self.turns),
            final_observation=self.observation,
            start_state_hash=self.start_hash,
            policy_version=policy_version,
        )

    def go_on(self, agent: ContinuousAgent, row: int, response: Response, step: Step) -> None:
        """Adds the turn that a step was; it is the last if there is no room for another."""
        ends, info = {"terminated": step.terminated, "truncated": step.truncated}, step.info
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
