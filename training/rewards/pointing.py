"""Agents that point: asked where something is in a picture, they answer with points in percents of its sides."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from agents.agent import Agent
from agents.registry import make_agent
from judges.grounding import read_response
from vlm_envs.trajectory import Observation

Pixels = npt.NDArray[np.uint8]
Place = tuple[float, float]
"""Column and row, in percents."""


def pointing_prompt(label: str) -> str:
    """Returns what asks for the places of things."""
    return f"Point at: {label}"


def read_places(reply: str) -> list[Place]:
    """Returns the places within the picture that a reply points at; none for what cannot be read."""
    points = read_response(reply).points
    return [(each.x, each.y) for each in points if 0.0 <= each.x <= 100.0 and 0.0 <= each.y <= 100.0]


def pointing_agent(name: str) -> Callable[[Pixels, str], list[Place]]:
    """Returns what asks an agent where things are in a picture; about each thing once."""
    agent = make_agent(name)
    known: dict[tuple[bytes, str], list[Place]] = {}

    def point(picture: Pixels, label: str) -> list[Place]:
        key = hashlib.blake2b(picture.tobytes(), digest_size=16, key=str(picture.shape).encode()).digest(), label
        if key not in known:
            (reply,) = replies(agent, [{"text": pointing_prompt(label), "images": (picture,)}])
            known[key] = read_places(reply)
        return known[key]

    return point


@dataclass(frozen=True)
class Rows:
    """As many conversations as worlds would have."""

    num_envs: int


def replies(agent: Agent, questions: Sequence[Observation]) -> list[str]:
    """Returns what an agent says to questions that have nothing to do with each other; nothing to none."""
    if not questions:
        return []
    worlds: Any = Rows(len(questions))
    agent.start(worlds)
    return [each.text for each in agent.respond(range(len(questions)), questions)]
