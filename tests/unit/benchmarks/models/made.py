"""Episodes of a board, written by hand: only what measures read, each with a value that changes nothing."""

from __future__ import annotations

from typing import Any


def turn(**told: Any) -> dict[str, Any]:
    """Returns a turn that took one of three needed actions."""
    usual = {
        "actions": ["Left"],
        "parse_error": None,
        "action_effective": True,
        "optimal_actions_before": 3,
        "optimal_actions_left": 2,
        "terminated": False,
        "truncated": False,
        "text": "",
        "images": [],
        "response": "",
        "stop_reason": "stop",
        "sections": {},
        "scores": {},
        "usage": {},
    }
    return usual | told


def episode(agent: str = "A", seed: int = 0, success: bool = True, **told: Any) -> dict[str, Any]:
    """Returns an episode of one turn that reached what was one action away, or failed to."""
    last = turn(optimal_actions_before=1, optimal_actions_left=0 if success else 1, terminated=success)
    usual = {
        "agent": agent,
        "world": "W",
        "seed": seed,
        "repeat": 0,
        "success": success,
        "total_reward": float(success),
        "error": "",
        "metrics": {},
        "turns": [last],
    }
    return usual | told
