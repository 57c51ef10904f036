"""The one rollout loop, used by cold start, training and evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agents.agent import Agent, Response
from vlm_envs.trajectory import Observation, Trajectory, Turn
from vlm_envs.vector import VectorWorld


def rollout(
    agent: Agent,
    worlds: VectorWorld,
    seeds: Sequence[int],
    *,
    env_ids: Sequence[str],
) -> list[Trajectory]:
    """Plays one episode in every world of a batch.

    Args:
        agent: Who acts.
        worlds: N worlds, in any mix.
        seeds: N reset seeds; siblings of a group share theirs.
        env_ids: N registered ids, for the record.

    Returns:
        N trajectories, in the order of the worlds. A world that crashed ends its episode as truncated.
    """
    observations, infos = worlds.reset(seed=list(seeds))
    current: list[Observation] = list(observations)
    info: list[dict[str, Any]] = list(infos["env"])
    start_hashes = [each["state_hash"] for each in info]
    turns: list[list[Turn]] = [[] for _ in seeds]
    agent.start(worlds)
    live = list(range(len(seeds)))
    while live:
        responses = agent.respond(live, [current[row] for row in live])
        actions: list[str | None] = [None] * len(seeds)
        for row, response in zip(live, responses, strict=True):
            actions[row] = response.text
        next_observations, rewards, terminated, truncated, infos = worlds.step(actions)
        for row, response in zip(live, responses, strict=True):
            turns[row].append(
                _turn(
                    current[row],
                    info[row]["state"],
                    response,
                    float(rewards[row]),
                    bool(terminated[row]),
                    bool(truncated[row]),
                    infos["env"][row],
                )
            )
            current[row], info[row] = next_observations[row], infos["env"][row]
        live = [row for row in live if not (terminated[row] or truncated[row])]
    return [
        Trajectory(
            env_id=env_ids[row],
            seed=seed,
            turns=tuple(turns[row]),
            final_observation=current[row],
            start_state_hash=start_hashes[row],
            policy_version=agent.policy_version,
        )
        for row, seed in enumerate(seeds)
    ]


def _turn(
    observation: Observation,
    state: dict[str, Any],
    response: Response,
    reward: float,
    terminated: bool,
    truncated: bool,
    info: dict[str, Any],
) -> Turn:
    """Returns one turn from what was shown, said and answered."""
    return Turn(
        observation=observation,
        state=state,
        response_text=response.text,
        stop_reason=response.stop_reason,
        prompt_ids=response.prompt_ids,
        response_ids=response.response_ids,
        sampler_logprobs=response.sampler_logprobs,
        reward=reward,
        reward_terms=info.get("reward_terms", {}),
        terminated=terminated,
        truncated=truncated,
        info=info,
    )
