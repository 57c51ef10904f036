"""Rollouts in which no episode waits for another: each goes on as soon as its world has answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from agents.agent import ContinuousAgent, Response
from agents.turns import failed_turn, fits, make_turn
from vlm_envs.trajectory import Observation, Trajectory, Turn
from vlm_envs.vector.env import VectorWorld
from vlm_envs.vector.episodes import Step

OnTurn = Callable[[int, Turn], None]


def play_continuously(
    agent: ContinuousAgent,
    worlds: VectorWorld,
    seeds: Sequence[int],
    env_ids: Sequence[str],
    observations: Sequence[Observation],
    infos: Sequence[dict[str, Any]],
    on_turn: OnTurn | None = None,
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
    """
    episodes = {
        row: _Episode(observations[row], infos[row]) for row in range(len(seeds)) if "worker_error" not in infos[row]
    }
    stepped: dict[int, Response] = {}
    agent.start(worlds)
    for row, episode in episodes.items():
        agent.add_request(row, episode.observation)
    while stepped or agent.has_unfinished_requests:
        answers = agent.step() if agent.has_unfinished_requests else {}
        failed = {row: response for row, response in answers.items() if response.stop_reason == "error"}
        said = {row: response for row, response in answers.items() if row not in failed}
        for row, response in failed.items():
            episodes[row].fail(response)
        if said:
            worlds.send({row: response.text for row, response in said.items()})
            stepped |= said
        done = worlds.recv(0.0 if agent.has_unfinished_requests else None) if stepped else {}
        for row, step in done.items():
            if row in stepped:
                episodes[row].go_on(agent, row, stepped.pop(row), step)
            else:  # lost with the worker of another, while it was answered
                agent.abort(row)
                episodes[row].lose(step)
            if not episodes[row].is_over:
                agent.add_request(row, episodes[row].observation)
        if on_turn is not None:
            for row in (*failed, *done):
                on_turn(row, episodes[row].turns[-1])
    return {
        row: Trajectory(
            env_id=env_ids[row],
            seed=seeds[row],
            turns=tuple(episode.turns),
            final_observation=episode.observation,
            start_state_hash=episode.start_hash,
            policy_version=agent.policy_version,
        )
        for row, episode in episodes.items()
    }


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
