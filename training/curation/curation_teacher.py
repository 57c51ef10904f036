"""The agent that answers in a curation, optionally shown where objects are (stages I and II of Argos' curation).

    I    question, right answer, images ── proposer ──> labels ── pointer, image by image ──> points in percents
    II   images ── places drawn in, with coordinates ──> teacher ── "(x, y)" ── label of the place ──> <points …>

What is recorded is what the world showed: a model that learns from it has to find the places without them.

Source: Argos, sections 4.1 and 4.2, appendices C, C.1, and G, and Figures 5 and 6. Choices and deviations:

- The proposer is not shown a first response of the teacher's, as the paper's is: there is none yet.
- For generated images and annotated data the evidence gives both labels and points, exactly and for free.
- A reply of a model that cannot be read proposes nothing; the teacher then sees the images as they are.
- Coordinates are percents, as the strategy `points` writes them; the paper draws pixels.
- Images come as they are and then marked; of a video only the marked frames, as in the paper.
- Which object a coordinate names is looked up among the drawn ones; the paper asks a language model (Figures 8 and 9).
  A coordinate that was not drawn names nothing, and stays as it is.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from agents.agent import Agent, Response, RolloutRows
from agents.answering import answering
from agents.hf.sampling_config import SamplingConfig
from agents.registry import make_agent, setting_names
from training.curation.curation_config import CurateConfig
from training.rewards.verifier import pointing_prompt, read_places, replies
from vlm_envs.qa.qa_world import options_of
from vlm_envs.qa.sample import Sample
from vlm_envs.qa.strategies import point_in_percents
from vlm_envs.qa.video_questions import time
from vlm_envs.trajectory import Observation, observation_images
from vlm_envs.vector.vector_world import VectorWorld

Pixels = npt.NDArray[np.uint8]

_WRITTEN = re.compile(r"[(\[]\s*([0-9]{1,3}(?:\.[0-9]+)?)\s*,\s*([0-9]{1,3}(?:\.[0-9]+)?)\s*[)\]]")
_FRAME = re.compile(r"\bin frame ([0-9]+) \((?:t = )?([0-9.]+) ?s(?:econds)?\)", re.IGNORECASE)
_TAG = re.compile(r"<points?\b[^>]*>.*?</points?>", re.DOTALL)
_MARK = (255, 0, 0)
MAX_LABELS = 10
"""Things that are looked for in a question's pictures. Source: Argos, Figures 5 and 6."""

MAX_FRAMES = 32
"""Frames that are pointed into. Source: Argos, section 4.1."""

_OBJECT = re.compile(r"\{.*\}", re.DOTALL)


def make_teacher(config: CurateConfig) -> Agent:
    """Returns who plays, with those of the settings that such an agent has, and shown places if it is to be."""
    teacher = _agent(config.expert, config)
    pointing = config.pointing
    if pointing.points == "none":
        return teacher
    if pointing.points == "exact":
        return PointedTeacher(teacher, exact_proposals)
    assert pointing.proposer is not None and pointing.pointer is not None, "they were required"
    proposer, pointer = (
        _agent(name, replace(config, sampling=replace(config.sampling, temperature=0.0)))
        for name in (pointing.proposer, pointing.pointer)
    )
    return PointedTeacher(teacher, model_proposals(proposer, pointer))


def _agent(name: str, config: CurateConfig) -> Agent:
    """Returns an agent with those of the settings that it has; an endpoint keeps its own where nothing was said."""
    sampling, usual, known = config.sampling, SamplingConfig(), setting_names(name)
    offered = {"mistake_rate": config.mistake_rate, "sampling": sampling, "seed": config.seed, "device": config.device}
    of_endpoint = {"temperature": "temperature", "top_p": "top_p", "max_tokens": "max_new_tokens"}
    for setting, field in of_endpoint.items():
        if getattr(sampling, field) != getattr(usual, field):
            offered[setting] = getattr(sampling, field)
    return make_agent(name, **{key: value for key, value in offered.items() if key in known})


class PointedTeacher:
    """An agent that is shown places, and writes what it says of them as points.

    Args:
        teacher: Who thinks and answers.
        propose: Who finds the places, once a question however often that is asked.
    """

    policy_version = -1

    def __init__(self, teacher: Agent, propose: Proposer) -> None:
        self._teacher, self._answering, self._propose = teacher, answering(teacher), propose
        self._known: dict[tuple[str, str], list[Proposal]] = {}
        self._worlds: VectorWorld | None = None

    def start(self, worlds: VectorWorld, rows: RolloutRows) -> None:
        """Takes hold of the worlds, which say what they ask."""
        self._worlds = worlds
        self._answering.start(worlds, rows)
        for row in range(rows.num_envs):
            self._answering.begin(row)

    def state_dict(self) -> dict[str, Any]:
        """Returns where the teacher stands, if it can say so."""
        state: dict[str, Any] = getattr(self._teacher, "state_dict", dict)()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Has the teacher go on where a state stands."""
        if hasattr(self._teacher, "load_state_dict"):
            self._teacher.load_state_dict(state)

    def respond(self, rows: Sequence[int], observations: Sequence[Observation]) -> list[Response]:
        """Returns a response for each row, with points in place of coordinates, without the tokens of what it saw."""
        assert self._worlds is not None, "start() comes before respond()"
        found = self._worlds.apply(dict.fromkeys(rows, asked_in))
        asked = [found[row] for row in rows]
        places = self._places(asked, observations)
        shown = [
            pointed(seen, each, is_video=bool(question.times_s))
            for seen, each, question in zip(observations, places, asked, strict=True)
        ]
        said = self._answering.respond(rows, shown)
        nothing: Any = np.zeros(0, np.int64)
        return [
            replace(
                each,
                text=tagged(each.text, of),
                prompt_ids=nothing,
                response_ids=nothing,
                sampler_logprobs=nothing.astype(np.float32),
            )
            for each, of in zip(said, places, strict=True)
        ]

    def _places(self, asked: Sequence[Asked], observations: Sequence[Observation]) -> list[list[Proposal]]:
        """Returns the places of each question; what was found once is kept."""
        keys = [(each.question, _hash(seen)) for each, seen in zip(asked, observations, strict=True)]
        new = {key: index for index, key in enumerate(keys) if key not in self._known}
        found = self._propose([asked[index] for index in new.values()], [observations[index] for index in new.values()])
        self._known |= dict(zip(new, found, strict=True))
        return [self._known[key] for key in keys]


def pointed(observation: Observation, places: Sequence[Proposal], *, is_video: bool) -> Observation:
    """Returns an observation with places drawn into its pictures; the same where there are none.

    Of a video the marked frames come in place of the others, else the marked pictures behind them.
    """
    images = observation_images(observation)
    if not places:
        return observation
    marked = tuple(
        overlaid(image, [each for each in places if each.image == number]) for number, image in enumerate(images)
    )
    told = (
        "Places in the frames are marked, each with its coordinates in percents of width and height. Where you mention "
        "a marked thing, write its coordinates and when it is seen, such as (12.3, 45.6) in frame 2 (0.5 seconds), and "
        "what happens over several frames from 0.5 to 1.5 seconds."
        if is_video
        else f"Behind the first {len(images)} pictures come the same with places marked, each with its coordinates in "
        "percents of width and height. Go by the first ones; where you mention a marked thing, write its coordinates, "
        "such as (12.3, 45.6)."
    )
    shown = observation.copy()
    shown["text"] = f"{observation.get('text', '')}\n{told}"
    shown["images"] = marked if is_video else (*images, *marked)
    return shown


def overlaid(picture: Pixels, places: Sequence[Proposal]) -> Pixels:
    """Returns a picture with a dot at each place and its coordinates beside it.

    Args:
        picture: uint8[height, width, 3]; it is not changed.
        places: In percents.

    Source: Argos, section 4.1 and Figure 3.
    """
    height, width = picture.shape[:2]
    canvas = Image.fromarray(picture)
    draw = ImageDraw.Draw(canvas)
    size = max(8, round(min(height, width) / 28))
    font, radius = ImageFont.load_default(size=size), max(1, size // 4)
    for each in places:
        x, y = each.x * width / 100, each.y * height / 100
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=_MARK, outline="white")
        text = f"({each.x:g}, {each.y:g})"
        left, top, right, bottom = draw.textbbox((0, 0), text, font)
        at = (min(max(0, x + 2 * radius), max(0, width - right)), min(max(0, y - size / 2), max(0, height - bottom)))
        draw.rectangle((at[0] + left, at[1] + top, at[0] + right, at[1] + bottom), fill="white")
        draw.text(at, text, fill=_MARK, font=font)
    return np.asarray(canvas).copy()


def tagged(text: str, places: Sequence[Proposal]) -> str:
    """Returns a response whose coordinates are points, with the labels of the places that they are of.

    Points that the teacher wrote itself stay, and so do coordinates that nobody drew.

    Source: Argos, section 4.3.
    """
    labels = {(each.x, each.y): each.label for each in reversed(places)}

    def tag(found: re.Match[str]) -> str:
        at = (float(found[1]), float(found[2]))
        label = labels.get(at)
        return found[0] if label is None else f'<points x1="{at[0]:g}" y1="{at[1]:g}" alt="{label}">{label}</points>'

    pieces, end = [], 0
    for own in _TAG.finditer(text):
        pieces += [_WRITTEN.sub(tag, text[end : own.start()]), own[0]]
        end = own.end()
    pieces.append(_WRITTEN.sub(tag, text[end:]))
    return _FRAME.sub(r"in frame \1 at \2 seconds", "".join(pieces))


def _hash(observation: Observation) -> str:
    seen = hashlib.blake2b(digest_size=16)
    for image in observation_images(observation):
        seen.update(str(image.shape).encode())
        seen.update(image.tobytes())
    return seen.hexdigest()


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


def model_proposals(proposer: Agent, pointer: Agent) -> Proposer:
    """Returns what finds places by two models: one names what to look at, the other one points at it."""

    def propose(asked: Sequence[Asked], shown: Sequence[Observation]) -> list[list[Proposal]]:
        questions: list[Observation] = [
            {"text": proposal_prompt(each), "images": observation_images(seen)}
            for each, seen in zip(asked, shown, strict=True)
        ]
        labels = [read_labels(reply) for reply in replies(proposer, questions)]
        where = [
            (question, image, label)
            for question, seen in enumerate(shown)
            for image in range(min(len(observation_images(seen)), MAX_FRAMES))
            for label in labels[question]
        ]
        pointed_at: list[Observation] = [
            {"text": pointing_prompt(label), "images": (observation_images(shown[question])[image],)}
            for question, image, label in where
        ]
        places: list[list[Proposal]] = [[] for _ in asked]
        for (question, image, label), reply in zip(where, replies(pointer, pointed_at), strict=True):
            places[question] += [
                Proposal(label=label, x=round(x, 1), y=round(y, 1), image=image) for x, y in read_places(reply)
            ]
        return places

    return propose


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
