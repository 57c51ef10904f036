"""An agent of your own: it makes its moves over and over, whatever it sees.

Watch it: PYTHONPATH=examples python -m agents play own_agent:Walker VLM/FrozenLake-v0 --set prompt_format=no_think
"""

from __future__ import annotations

from collections.abc import Sequence

from agents.agent import Response
from vlm_envs.trajectory import Observation
from vlm_envs.vector.vector_world import VectorWorld


class Walker:
    """Makes its moves, a turn of them at a time."""

    policy_version = -1  # it does not learn

    def __init__(self, *, moves: str = "Down, Right") -> None:
        self._moves = moves

    def start(self, worlds: VectorWorld) -> None:
        """Has nothing to forget."""

    def respond(self, rows: Sequence[int], observations: Sequence[Observation]) -> list[Response]:
        """Returns one response for each row; `observations[i]["text"]` and `["image"]` are what row i is shown."""
        return [Response(text=f"<answer>{self._moves}</answer>") for _ in rows]
