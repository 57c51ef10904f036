"""Rollouts, for cold start, training and evaluation: turn by turn, or with no episode waiting for another.

Which of the two it is, is the agent's: one that batches whoever is there (`ContinuousAgent`) lets no episode wait.
"""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from agents.agent import Agent, ContinuousAgent, Response, ended_by_agent, failed_turn, fits, make_turn, reset_arguments
from agents.continuous_rollout import OnEpisode, OnTurn, play_continuously, play_from_resets
from vlm_envs.errors import ConfigError
from vlm_envs.trajectory import Observation, Trajectory, Turn
from vlm_envs.vector.vector_world import JoinedWorlds, VectorWorld


def rollout(
    agent: Agent,
    worlds: VectorWorld,
    seeds: Sequence[int],
    *,
    env_ids: Sequence[str],
    levels: Sequence[str] | None = None,
    on_turn: OnTurn | None = None,
) -> list[Trajectory]:
    """Returns one episode played in every world of a batch.

    Args:
        agent: Who acts.
        worlds: N worlds, in any mix.
        seeds: N reset seeds; siblings of a group share theirs.
        env_ids: N registered ids, for the record.
        levels: N level texts that the worlds are reset to; None where seeds draw the levels.
        on_turn: Called after each turn with the number of its world; for those who watch.

    Returns:
        N trajectories, in the order of the worlds. A world that crashed ends its episode as truncated, and so does an
        observation that an agent has no room for: the `info` before it then has `context_full`.

    Raises:
        ConfigError: If the agent gives anything but one `Response` for each row.
    """
    observations, infos = worlds.reset(**reset_arguments(seeds, levels))
    played = _play(agent, worlds, seeds, env_ids, observations, infos["env"], on_turn, levels=levels)
    return [played[row] for row in range(len(seeds))]


def try_rollout(
    agent: Agent,
    worlds: VectorWorld,
    seeds: Sequence[int],
    *,
    env_ids: Sequence[str],
    levels: Sequence[str] | None = None,
    on_turn: OnTurn | None = None,
    on_episode: OnEpisode | None = None,
) -> list[Trajectory | None]:
    """Returns one episode played in every world of a batch that can be started; otherwise as `rollout`.

    Args:
        agent: Who acts.
        worlds: N worlds, in any mix.
        seeds: N reset seeds.
        env_ids: N registered ids.
        levels: N level texts, as for `rollout`.
        on_turn: Called after each turn with the number of its world.
        on_episode: Called with each episode and the number of its world; while others go on, if the agent lets them.

    Returns:
        N trajectories, in the order of the worlds; None for a world that could not be reset, not even in a worker
        started anew. A world that crashed later ends its episode as truncated.
    """
    if isinstance(agent, ContinuousAgent):
        started = play_from_resets(agent, worlds, seeds, env_ids, on_turn, on_episode, levels=levels)
        return [started.get(row) for row in range(len(seeds))]
    observations, infos = worlds.try_reset(**reset_arguments(seeds, levels))
    played = _play(agent, worlds, seeds, env_ids, observations, infos["env"], on_turn, on_episode, levels=levels)
    return [played.get(row) for row in range(len(seeds))]


class WorldBatch(NamedTuple):
    """What `try_rollout` is given besides an agent: see its arguments."""

    worlds: VectorWorld
    seeds: Sequence[int]
    env_ids: Sequence[str]
    levels: Sequence[str] | None = None
    on_turn: OnTurn | None = None
    on_episode: OnEpisode | None = None


def try_rollouts(agent: Agent, batches: Sequence[WorldBatch]) -> list[list[Trajectory | None]]:
    """Plays batches of several kinds of worlds, and returns what `try_rollout` returns of each.

    With a `ContinuousAgent` all of them are under way at once, so that no batch waits for the worlds of another; what
    is drawn is what would be drawn one after another. With any other agent they are played in turn.
    """
    if len(batches) < 2 or not isinstance(agent, ContinuousAgent):
        return [
            try_rollout(
                agent,
                each.worlds,
                each.seeds,
                env_ids=each.env_ids,
                levels=each.levels,
                on_turn=each.on_turn,
                on_episode=each.on_episode,
            )
            for each in batches
        ]
    places = [(batch, row) for batch in batches for row in range(len(batch.seeds))]

    def on_turn(number: int, turn: Turn) -> None:
        batch, row = places[number]
        if batch.on_turn is not None:
            batch.on_turn(row, turn)

    def on_episode(number: int, trajectory: Trajectory) -> None:
        batch, row = places[number]
        if batch.on_episode is not None:
            batch.on_episode(row, trajectory)

    played = play_from_resets(
        agent,
        JoinedWorlds([batch.worlds for batch in batches]),
        [batch.seeds[row] for batch, row in places],
        [batch.env_ids[row] for batch, row in places],
        on_turn,
        on_episode,
        levels=[batch.levels[row] if batch.levels else None for batch, row in places],
    )
    numbers = iter(range(len(places)))
    return [[played.get(next(numbers)) for _ in batch.seeds] for batch in batches]


def _play(
    agent: Agent,
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
    """Returns the episodes of the worlds that were started, by their number."""
    if isinstance(agent, ContinuousAgent):
        return play_continuously(agent, worlds, seeds, env_ids, observations, infos, on_turn, on_episode, levels=levels)
    current, info = list(observations), list(infos)
    started = [row for row in range(len(seeds)) if "worker_error" not in info[row]]
    start_hashes = {row: info[row]["state_hash"] for row in started}
    turns: list[list[Turn]] = [[] for _ in seeds]
    agent.start(worlds)
    live = list(started)
    while live:
        responses = _responses(agent, live, [current[row] for row in live])
        actions: list[str | None] = [None] * len(seeds)
        for row, response in zip(live, responses, strict=True):
            if response.stop_reason == "error":
                turns[row].append(failed_turn(current[row], info[row], response))
                if on_turn is not None:
                    on_turn(row, turns[row][-1])
            else:
                actions[row] = response.text
        if all(action is None for action in actions):
            break
        next_observations, rewards, terminated, truncated, next_infos = worlds.step(actions)
        for row, response in zip(live, responses, strict=True):
            if actions[row] is None:
                continue
            ends = {"terminated": bool(terminated[row]), "truncated": bool(truncated[row])}
            outcome, ends = ended_by_agent(response, next_infos["env"][row], ends)
            if not any(ends.values()) and not fits(agent, row, next_observations[row]):
                ends, outcome = {**ends, "truncated": True}, {**outcome, "context_full": True}
            turns[row].append(make_turn(current[row], info[row], response, outcome, float(rewards[row]), **ends))
            current[row], info[row] = next_observations[row], outcome
            if on_turn is not None:
                on_turn(row, turns[row][-1])
        live = [row for row in live if not (turns[row][-1].terminated or turns[row][-1].truncated)]
    played = {
        row: Trajectory(
            env_id=env_ids[row],
            seed=seeds[row],
            turns=tuple(turns[row]),
            final_observation=current[row],
            start_state_hash=start_hashes[row],
            policy_version=agent.policy_version,
            level=levels[row] if levels else "",
        )
        for row in started
    }
    for row, episode in played.items():
        if on_episode is not None:
            on_episode(row, episode)
    return played


def _responses(agent: Agent, rows: list[int], observations: list[Observation]) -> list[Response]:
    """Returns what an agent says; raises `ConfigError` if it is not what an agent has to give."""
    said: Any = agent.respond(rows, observations)  # Agents of the user's own give anything.
    if not isinstance(said, list | tuple):
        came = reprlib.repr(said)
    elif wrong := [each for each in said if not (isinstance(each, Response) and isinstance(each.text, str))]:
        first = wrong[0]
        came = f"the text {first.text!r}" if isinstance(first, Response) else reprlib.repr(first)
    elif len(said) != len(rows):
        came = f"{len(said)} of them"
    else:
        return list(said)
    raise ConfigError(
        f"The agent {type(agent).__module__}:{type(agent).__qualname__}: respond(rows, observations) must return a "
        f"list of {len(rows)} agents.agent.Response, one for each row, each with its text; got {came}."
    )
