"""Turns and episodes from what was shown, said and answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agents.agent import Agent, BoundedAgent, Response
from vlm_envs.trajectory import Observation, Turn
from vlm_envs.world import OPTIMAL_ACTIONS_LEFT


def make_turn(
    observation: Observation,
    seen: dict[str, Any],
    response: Response,
    info: dict[str, Any],
    reward: float = 0.0,
    *,
    terminated: bool = False,
    truncated: bool = False,
) -> Turn:
    """Returns one turn from what was shown, said and answered.

    Args:
        observation: What the agent was shown.
        seen: The world's `info` that came with it, of the state before the turn.
        response: What the agent said.
        info: The world's `info` in answer, of the state after the turn.
        reward: What the world paid for the turn.
        terminated: Whether the world ended with it.
        truncated: Whether a limit ended the episode with it.
    """
    return Turn(
        observation=observation,
        state=seen["state"],
        state_text=seen.get("state_text"),
        seen_sections=seen.get("seen_sections", {}),
        optimal_actions_left=seen.get(OPTIMAL_ACTIONS_LEFT),
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
        thoughts=response.thoughts,
        usage=response.usage,
        model=response.model,
        stop_detail=response.stop_detail,
        summary=response.summary,
        request=response.request,
        raw=response.raw,
    )


def failed_turn(observation: Observation, seen: dict[str, Any], response: Response) -> Turn:
    """Returns the turn of a response that could not be had: the world was not stepped, and the episode ends lost."""
    nothing = {"reward_terms": {}, "actions": (), "sections": {}, "action_effective": False, "format_correct": False}
    nothing |= {"actions_read": False, "unread": ""}
    info = {**seen, **nothing, "success": False, "agent_error": response.error or "no response could be had"}
    return make_turn(observation, seen, response, info, truncated=True)


def reset_arguments(seeds: Sequence[int], levels: Sequence[str | None] | None, **options: Any) -> dict[str, Any]:
    """Returns what `VectorWorld.reset` is given: N seeds, and N level texts unless seeds draw the levels."""
    options |= {"levels": list(levels)} if levels else {}
    return {"seed": list(seeds)} | ({"options": options} if options else {})


def ended_by_agent(
    response: Response, info: dict[str, Any], ends: dict[str, bool]
) -> tuple[dict[str, Any], dict[str, bool]]:
    """Returns a turn's `info` and ends, the episode truncated where the response had no room.

    Args:
        response: What the agent said.
        info: The world's, after the turn.
        ends: `terminated` and `truncated`, as the world has them.
    """
    if response.stop_reason != "context" or any(ends.values()):
        return info, ends
    return {**info, "context_full": True}, {**ends, "truncated": True}


def fits(agent: Agent, row: int, observation: Observation) -> bool:
    """Returns whether an agent has room for what a row shows now."""
    return not isinstance(agent, BoundedAgent) or agent.fits(row, observation)
