"""Shapes of what is read back from a board's files: a damaged byte is told where it stands, before anything uses it."""

from __future__ import annotations

from typing import Any

_TEXT, _NUMBER, _TRUTH = (str, type(None)), (int, float), (bool, type(None))
_COUNT, _NUMBER_OR_NONE = (int, type(None)), (int, float, type(None))

OPTIONAL = "?"
"""How the name of a field ends that need not be there."""

_MISSING = object()

_NUMBERS = {"*": _NUMBER_OR_NONE}
_SHOWN = {"text": str, "images": [str], "system?": str}
_TURN = {
    "actions": [str],
    "parse_error": _TEXT,
    "action_effective": _TRUTH,
    "optimal_actions_before": _COUNT,
    "optimal_actions_left": _COUNT,
    "terminated": bool,
    "truncated": bool,
    "scores": {"*": _NUMBER_OR_NONE},
    "usage": {"*": _NUMBER},
    "sections": {"*": _TEXT},
    **_SHOWN,
    **dict.fromkeys(("response", "stop_reason", "thoughts?", "model?"), str),
    **dict.fromkeys(("state_text?", "state_text_after?", "worker_error?", "agent_error?", "state_hash?"), _TEXT),
    **dict.fromkeys(("reward_terms?", "shaping?", "credit?"), _NUMBERS),
    "reward?": _NUMBER,
    "context_full?": bool,
    **dict.fromkeys(("stop_detail?", "summary?"), str),
    **dict.fromkeys(("request?", "raw?"), dict),
    "unread?": str,
}
_NAMED = {
    **dict.fromkeys(("world", "agent", "world_digest", "agent_digest", "error"), str),
    **dict.fromkeys(("seed", "repeat"), int),
    **dict.fromkeys(("usd?", "tokens?", "wall_s?", "seconds?", "uncounted?"), _NUMBER_OR_NONE),
    **dict.fromkeys(("metrics?", "judged?"), _NUMBERS),
    "judge?": _TEXT,
    "start_state_hash?": _TEXT,
    "cluster?": str,
    "digest?": str,
    "reading?": str,
    "expects_observation?": bool,
    "address?": str,
    "unjudged?": [{"of": str, "turn?": int, "kept?": str}],
}

EPISODE = {**_NAMED, "turns": [_TURN], "final": _SHOWN, "success": bool, "total_reward": _NUMBER}
FAILED_EPISODE = {**_NAMED, "turns?": [_TURN], "final?": _SHOWN, "success?": bool, "total_reward?": _NUMBER}
BOARD = {
    "worlds": [
        {
            **dict.fromkeys(("label", "digest", "env_id", "split", "reading?"), str),
            "kwargs": dict,
            "max_actions_per_turn?": int,
            "adapted?": {"env": str, "name": str, "file?": str, "functions?": dict},
        }
    ],
    "agents": [{"label": str, "digest": str, "identity?": dict}],
    "suite?": (dict, type(None)),
    "split?": _TEXT,
    "reading?": str,
    "versions?": dict,
}
MARKS = {"rows": [{"agent": str, "world": str, "digest": str}]}


def misshapen(value: Any, shape: Any, where: str = "") -> str:
    """Returns where a value is not of a shape, and what is there: `"turns[1].usage is 'x'"`; empty if it is.

    Args:
        value: As JSON gives it.
        shape: A type or several; `[shape]` for a list of such; or an object's fields, `"*"` for all of any name.
        where: What the value is called.
    """
    parts: list[tuple[str, Any, Any]] | None
    if isinstance(shape, list):
        parts = (
            [(f"{where}[{index}]", each, shape[0]) for index, each in enumerate(value)]
            if isinstance(value, list)
            else None
        )
    elif not isinstance(shape, dict):
        parts = [] if isinstance(value, shape) else None
    elif not isinstance(value, dict):
        parts = None
    elif "*" in shape:
        parts = [(f"{where}.{name}", each, shape["*"]) for name, each in value.items()]
    else:
        parts = [
            (f"{where}.{name}".lstrip("."), value.get(name, _MISSING), each)
            for name, each in ((field.removesuffix(OPTIONAL), each) for field, each in shape.items())
            if name in value or name in shape
        ]
    if parts is None:
        told = "missing" if value is _MISSING else repr(value)
        return f"{where or 'it'} is {told if len(told) <= 80 else f'{told[:79]}…'}"
    return next(filter(None, (misshapen(each, of, name) for name, each, of in parts)), "")
