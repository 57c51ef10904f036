"""The agent that answers in a curation, optionally with object locations drawn in (Argos' curation, stages I and II).

    I    question, right answer, images ── proposer ──> labels ── pointer, image by image ──> points in percents
    II   images ── places drawn in, with coordinates ──> teacher ── "(x, y)" ── label of the place ──> <points …>

Episodes record the world's original images, so that a model trained on them must find the places itself.

Source: Argos, sections 4.1 and 4.2, appendices C, C.1, and G, and Figures 5 and 6. Choices and deviations:

- Unlike in the paper, the proposer does not see a first response of the teacher, because there is none yet. - For
generated images and annotated data the evidence gives both labels and points, exactly and for free. - An unreadable
reply of a model proposes nothing; the teacher then sees the unmodified images. - Coordinates are percents, as in the
strategy `points`; the paper uses pixels. - Unmodified images precede marked ones; for a video only marked frames are
shown, as in the paper. - Coordinates in the response are matched exactly with the drawn ones to find the object; the
paper asks a language model (Figures 8 and 9). A coordinate that was not drawn is left unchanged.
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
"""Maximum number of labels per question. Source: Argos, Figures 5 and 6."""

MAX_FRAMES = 32
"""Maximum number of frames in which to point. Source: Argos, section 4.1."""

_OBJECT = re.compile(r"\{.*\}", re.DOTALL)


def make_teacher(config: CurateConfig) -> Agent:
    """Returns the agent that plays, with the settings that it accepts, wrapped to see points if these are enabled."""
    teacher = _agent(config.expert, config)
    pointing = config.pointing
    if pointing.points == "none":
        return teacher
    if pointing.points == "exact":
        return PointedTeacher(teacher, exact_proposals)
    assert pointing.proposer is not None and pointing.pointer is not None, "PointingConfig requires both"
    proposer, pointer = (
        _agent(name, replace(config, sampling=replace(config.sampling, temperature=0.0)))
        for name in (pointing.proposer, pointing.pointer)
    )
    return PointedTeacher(teacher, model_proposals(proposer, pointer))


def _agent(name: str, config: CurateConfig) -> Agent:
    """Returns an agent with the settings that it accepts; endpoints keep their own defaults."""
    sampling, usual, accepted = config.sampling, SamplingConfig(), setting_names(name)
    offered = {"mistake_rate": config.mistake_rate, "sampling": sampling, "seed": config.seed, "device": config.device}
    of_endpoint = {"temperature": "temperature", "top_p": "top_p", "max_tokens": "max_new_tokens"}
    for setting, field in of_endpoint.items():
        if getattr(sampling, field) != getattr(usual, field):
            offered[setting] = getattr(sampling, field)
    return make_agent(name, **{key: value for key, value in offered.items() if key in accepted})


class PointedTeacher:
    """An agent that sees marked places; coordinates in its responses are converted to points.

    Args:
        teacher: The agent that thinks and answers.
        propose: Finds the places; called once per question, even if the question is asked repeatedly.
    """

    policy_version = -1

    def __init__(self, teacher: Agent, propose: Proposer) -> None:
        self._teacher, self._answering, self._propose = teacher, answering(teacher), propose
        self._proposals: dict[tuple[str, str], list[Proposal]] = {}
        self._worlds: VectorWorld | None = None

    def start(self, worlds: VectorWorld, rows: RolloutRows) -> None:
        """Keeps the worlds, from which questions are read."""
        self._worlds = worlds
        self._answering.start(worlds, rows)
        for row in range(rows.num_envs):
            self._answering.begin(row)

    def state_dict(self) -> dict[str, Any]:
        """Returns the teacher's state; empty if it has none."""
        state: dict[str, Any] = getattr(self._teacher, "state_dict", dict)()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores the teacher's state."""
        if hasattr(self._teacher, "load_state_dict"):
            self._teacher.load_state_dict(state)

    def respond(self, rows: Sequence[int], observations: Sequence[Observation]) -> list[Response]:
        """Returns a response per row, with coordinates converted to points and without the original tokens."""
        assert self._worlds is not None, "call start() before respond()"
        found = self._worlds.apply(dict.fromkeys(rows, asked_in))
        asked = [found[row] for row in rows]
        places = self._places(asked, observations)
        shown = [
            pointed(seen, proposals, is_video=bool(question.times_s))
            for seen, proposals, question in zip(observations, places, asked, strict=True)
        ]
        responses = self._answering.respond(rows, shown)
        nothing: Any = np.zeros(0, np.int64)
        return [
            replace(
                response,
                text=tagged(response.text, of),
                prompt_ids=nothing,
                response_ids=nothing,
                sampler_logprobs=nothing.astype(np.float32),
            )
            for response, of in zip(responses, places, strict=True)
        ]

    def _places(self, asked: Sequence[Asked], observations: Sequence[Observation]) -> list[list[Proposal]]:
        """Returns the places of each question, cached by question and images."""
        keys = [(question.question, _hash(seen)) for question, seen in zip(asked, observations, strict=True)]
        new = {key: index for index, key in enumerate(keys) if key not in self._proposals}
        found = self._propose([asked[index] for index in new.values()], [observations[index] for index in new.values()])
        self._proposals |= dict(zip(new, found, strict=True))
        return [self._proposals[key] for key in keys]


def pointed(observation: Observation, places: Sequence[Proposal], *, is_video: bool) -> Observation:
    """Returns an observation with places drawn into its images; unchanged if there are none.

    Marked frames replace the frames of a video; otherwise marked images follow the original ones.
    """
    images = observation_images(observation)
    if not places:
        return observation
    marked = tuple(
        overlaid(image, [proposal for proposal in places if proposal.image == number])
        for number, image in enumerate(images)
    )
    note = (
        "Places in the frames are marked, each with its coordinates in percents of width and height. Where you mention "
        "a marked thing, write its coordinates and when it is seen, such as (12.3, 45.6) in frame 2 (0.5 seconds), and "
        "what happens over several frames from 0.5 to 1.5 seconds."
        if is_video
        else f"Behind the first {len(images)} pictures come the same with places marked, each with its coordinates in "
        "percents of width and height. Go by the first ones; where you mention a marked thing, write its coordinates, "
        "such as (12.3, 45.6)."
    )
    shown = observation.copy()
    shown["text"] = f"{observation.get('text', '')}\n{note}"
    shown["images"] = marked if is_video else (*images, *marked)
    return shown


def overlaid(image: Pixels, places: Sequence[Proposal]) -> Pixels:
    """Returns a copy of an image with a dot at each place and its coordinates next to it.

    Args:
        image: uint8[height, width, 3].
        places: Places, in percent of the image size.

    Source: Argos, section 4.1 and Figure 3.
    """
    height, width = image.shape[:2]
    canvas = Image.fromarray(image)
    draw = ImageDraw.Draw(canvas)
    size = max(8, round(min(height, width) / 28))
    font, radius = ImageFont.load_default(size=size), max(1, size // 4)
    for proposal in places:
        x, y = proposal.x * width / 100, proposal.y * height / 100
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=_MARK, outline="white")
        text = f"({proposal.x:g}, {proposal.y:g})"
        left, top, right, bottom = draw.textbbox((0, 0), text, font)
        at = (min(max(0, x + 2 * radius), max(0, width - right)), min(max(0, y - size / 2), max(0, height - bottom)))
        draw.rectangle((at[0] + left, at[1] + top, at[0] + right, at[1] + bottom), fill="white")
        draw.text(at, text, fill=_MARK, font=font)
    return np.asarray(canvas).copy()


def tagged(text: str, places: Sequence[Proposal]) -> str:
    """Returns a response in which coordinates of drawn places are replaced by points with their labels.

    Points that the teacher wrote itself are left unchanged, and so are coordinates that were not drawn.

    Source: Argos, section 4.3.
    """
    labels = {(proposal.x, proposal.y): proposal.label for proposal in reversed(places)}

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
    """A place in one of a question's images.

    Attributes:
        label: Name of the object at the place.
        x: In percent of the image width, rounded to a tenth, as written.
        y: In percent of the image height, rounded to a tenth.
        image: Index of the image.
    """

    label: str
    x: float
    y: float
    image: int = 0


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The question of a world.

    Attributes:
        question: The question and its options, one per line.
        answer: The right answer, in words.
        times_s: Time of each frame of a video; empty for images.
        evidence: Places that support the answer.
    """

    question: str
    answer: str
    times_s: tuple[float, ...]
    evidence: tuple[Proposal, ...]


Proposer = Callable[[Sequence[Asked], Sequence[Observation]], list[list[Proposal]]]
"""Returns the places of each question, from questions and observations."""


def asked_in(world: Any) -> Asked:
    """Returns the current question of a question-answering world."""
    sample: Sample = world.state.sample
    options = options_of(sample.key)
    right = [text for text in options if text.startswith(f"{sample.key.answers[0]}. ")]
    places = []
    for evidence in sample.evidence:
        at = point_in_percents(evidence)
        places.append(Proposal(label=evidence.label, x=round(at.x, 1), y=round(at.y, 1), image=evidence.image))
    return Asked(
        question="\n".join((sample.question, *options)),
        answer=(right or sample.key.answers)[0],
        times_s=sample.times_s,
        evidence=tuple(places),
    )


def exact_proposals(asked: Sequence[Asked], shown: Sequence[Observation]) -> list[list[Proposal]]:
    """Returns the evidence of each question."""
    return [list(question.evidence) for question in asked]


def model_proposals(proposer: Agent, pointer: Agent) -> Proposer:
    """Returns a proposer that uses two models: one names the relevant objects, the other points at them."""

    def propose(asked: Sequence[Asked], shown: Sequence[Observation]) -> list[list[Proposal]]:
        questions: list[Observation] = [
            {"text": proposal_prompt(question), "images": observation_images(seen)}
            for question, seen in zip(asked, shown, strict=True)
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
    """Returns the prompt that asks for the objects that support an answer."""
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
    """Returns the distinct objects and interactions that a proposer names; empty if the reply is not a JSON object."""
    found = _OBJECT.search(reply)
    try:
        named = json.loads(found[0]) if found else {}
    except json.JSONDecodeError:
        return []
    lists = [named.get(key) for key in ("entities", "interactions")] if isinstance(named, Mapping) else []
    labels = [label.strip() for names in lists if isinstance(names, list) for label in names if isinstance(label, str)]
    return list(dict.fromkeys(filter(None, labels)))[:MAX_LABELS]
