"""What there is to look at in a question's pictures, and where it is: stage I of Argos' curation.

    question, right answer, pictures ── proposer ──> labels ── pointer, picture by picture ──> points in percents

Source: Argos, section 4.1, appendix C.1 and Figures 5 and 6. Choices and deviations:

- The proposer is not shown a first response of the teacher's, as the paper's is: there is none yet.
- Of generated pictures and annotated data the evidence says both, exactly and for nothing.
- What a model says that cannot be read proposes nothing; the teacher then sees the pictures as they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.agent import Agent
from training.rewards.pointing import pointing_prompt, read_places, replies
from vlm_envs.qa.qa_world import options_of
from vlm_envs.qa.sample import Sample
from vlm_envs.qa.strategies import point_in_percents
from vlm_envs.qa.video_questions import time
from vlm_envs.trajectory import Observation, observation_images
from vlm_envs.vector.vector_world import VectorWorld

MAX_LABELS = 10
"""Things that are looked for in a question's pictures. Source: Argos, Figures 5 and 6."""

MAX_FRAMES = 32
"""Frames that are pointed into. Source: Argos, section 4.1."""

_OBJECT = re.compile(r"\{.*\}", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A place in one of a question's pictures.

    Attributes:
        label: What is there.
        x: In percents of the picture's width, to a tenth, as it is written.
        y: Likewise of its height.
        image: Index of the picture.
    """

    label: str
    x: float
    y: float
    image: int = 0


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a world asks.

    Attributes:
        question: With its options, one a line.
        answer: The right one, in words.
        times_s: Of a video: when each frame is shown.
        evidence: What the answer rests on, as places.
    """

    question: str
    answer: str
    times_s: tuple[float, ...]
    evidence: tuple[Proposal, ...]


Proposer = Callable[[Sequence[Asked], Sequence[Observation]], list[list[Proposal]]]
"""From questions and what is shown of them to places."""


def asked_in(world: Any) -> Asked:
    """Returns what a question-answering world asks now."""
    sample: Sample = world.state.sample
    options = options_of(sample.key)
    right = [text for text in options if text.startswith(f"{sample.key.answers[0]}. ")]
    places = []
    for each in sample.evidence:
        at = point_in_percents(each)
        places.append(Proposal(label=each.label, x=round(at.x, 1), y=round(at.y, 1), image=each.image))
    return Asked(
        question="\n".join((sample.question, *options)),
        answer=(right or sample.key.answers)[0],
        times_s=sample.times_s,
        evidence=tuple(places),
    )


def exact_proposals(asked: Sequence[Asked], shown: Sequence[Observation]) -> list[list[Proposal]]:
    """Returns what the evidence of each question says."""
    return [list(each.evidence) for each in asked]


class ModelProposals:
    """Places that two models find: one names what to look at, the other one points at it."""

    def __init__(self, proposer: Agent, pointer: Agent) -> None:
        self._proposer, self._pointer = proposer, pointer

    def __call__(self, asked: Sequence[Asked], shown: Sequence[Observation]) -> list[list[Proposal]]:
        """Returns the places of each question; none where a reply cannot be read."""
        questions: list[Observation] = [
            {"text": proposal_prompt(each), "images": observation_images(seen)}
            for each, seen in zip(asked, shown, strict=True)
        ]
        labels = [read_labels(reply) for reply in replies(self._proposer, questions)]
        where = [
            (question, image, label)
            for question, seen in enumerate(shown)
            for image in range(min(len(observation_images(seen)), MAX_FRAMES))
            for label in labels[question]
        ]
        found = replies(
            self._pointer,
            [
                {"text": pointing_prompt(label), "images": (observation_images(shown[at])[image],)}
                for at, image, label in where
            ],
        )
        places: list[list[Proposal]] = [[] for _ in asked]
        for (question, image, label), reply in zip(where, found, strict=True):
            places[question] += [
                Proposal(label=label, x=round(x, 1), y=round(y, 1), image=image) for x, y in read_places(reply)
            ]
        return places


def proposal_prompt(asked: Asked) -> str:
    """Returns what asks for the things that an answer rests on."""
    frames = ", ".join(f"F{number} at {time(at)} s" for number, at in enumerate(asked.times_s, start=1))
    actions = (
        ' and "actions", what happens over several frames, each with its start and end in seconds' if frames else ""
    )
    return "\n".join(
        [
            *([f"Frames of a video: {frames}."] if frames else []),
            f"Question: {asked.question}",
            f"The right answer: {asked.answer}",
            "Which things in what you see does one have to look at to find this answer? Name only what is visible, "
            f"each once, in the few words that tell it from the others, at most {MAX_LABELS}.",
            'Reply with nothing but a JSON object: "entities", a list of names; "interactions", a list of visible '
            f"relations between them{actions}.",
        ]
    )


def read_labels(reply: str) -> list[str]:
    """Returns the things and interactions that a proposer names, each once; nothing for what is no JSON object."""
    found = _OBJECT.search(reply)
    try:
        named = json.loads(found[0]) if found else {}
    except json.JSONDecodeError:
        return []
    lists = [named.get(key) for key in ("entities", "interactions")] if isinstance(named, Mapping) else []
    labels = [label.strip() for each in lists if isinstance(each, list) for label in each if isinstance(label, str)]
    return list(dict.fromkeys(filter(None, labels)))[:MAX_LABELS]


def asked_by(worlds: VectorWorld, rows: Sequence[int]) -> list[Asked]:
    """Returns what some worlds ask, found out where they live."""
    found = worlds.apply(dict.fromkeys(rows, asked_in))
    return [found[row] for row in rows]
