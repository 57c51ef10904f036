"""An agent of your own: it repeats its moves regardless of the observation.

Watch it: PYTHONPATH=examples python -m agents play own_agent:Walker VLM/FrozenLake-v0 --set prompt_format=no_think
"""

from __future__ import annotations

from collections.abc import Sequence

from agents.agent import Response
from vlm_envs.trajectory import Observation
from vlm_envs.vector.vector_world import VectorWorld


class Walker:
    """Repeats its moves, one turn's worth at a time."""

    policy_version = -1  # it does not learn

    def __init__(self, *, moves: str = "Down, Right") -> None:
        self._moves = moves

    def start(self, worlds: VectorWorld) -> None:
        """Does nothing, as the agent has no state."""

    def respond(self, rows: Sequence[int], observations: Sequence[Observation]) -> list[Response]:
        """Returns one response per row; `observations[i]["text"]` and `["image"]` are the observation of row i."""
        return [Response(text=f"<answer>{self._moves}</answer>") for _ in rows]
