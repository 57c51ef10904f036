"""A teacher that is shown where things are, and whose coordinates become points: stage II of Argos' curation.

    pictures ── places drawn in, with coordinates ──> teacher ── "(x, y)" ── label of the place ──> <points …>

What is recorded is what the world showed: whoever learns from it has to find the places without them.

Source: Argos, section 4.2, appendix C and G. Choices and deviations:

- Coordinates are percents, as the strategy `points` writes them; the paper draws pixels.
- Pictures come as they are and then marked; of a video only the marked frames, as in the paper.
- Which thing a coordinate names is looked up among the drawn ones; the paper asks a language model (Figures 8 and 9). A
  coordinate that nobody drew names nothing, and stays as it is.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from agents.agent import Agent, Response
from training.data.curation.proposals import Asked, Proposal, Proposer, asked_by
from vlm_envs.trajectory import Observation, observation_images
from vlm_envs.vector.vector_world import VectorWorld

Pixels = npt.NDArray[np.uint8]

_WRITTEN = re.compile(r"[(\[]\s*([0-9]{1,3}(?:\.[0-9]+)?)\s*,\s*([0-9]{1,3}(?:\.[0-9]+)?)\s*[)\]]")
_FRAME = re.compile(r"\bin frame ([0-9]+) \((?:t = )?([0-9.]+) ?s(?:econds)?\)", re.IGNORECASE)
_TAG = re.compile(r"<points?\b[^>]*>.*?</points?>", re.DOTALL)
_MARK = (255, 0, 0)


class PointedTeacher:
    """An agent that is shown places, and writes what it says of them as points.

    Args:
        teacher: Who thinks and answers.
        propose: Who finds the places, once a question however often that is asked.
    """

    policy_version = -1

    def __init__(self, teacher: Agent, propose: Proposer) -> None:
        self._teacher, self._propose = teacher, propose
        self._known: dict[tuple[str, str], list[Proposal]] = {}
        self._worlds: VectorWorld | None = None

    def start(self, worlds: VectorWorld) -> None:
        """Takes hold of the worlds, which say what they ask."""
        self._worlds = worlds
        self._teacher.start(worlds)

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
        asked = asked_by(self._worlds, rows)
        places = self._places(asked, observations)
        shown = [
            pointed(seen, each, is_video=bool(question.times_s))
            for seen, each, question in zip(observations, places, asked, strict=True)
        ]
        said = self._teacher.respond(rows, shown)
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
        text = written(each)
        left, top, right, bottom = draw.textbbox((0, 0), text, font)
        at = (min(max(0, x + 2 * radius), max(0, width - right)), min(max(0, y - size / 2), max(0, height - bottom)))
        draw.rectangle((at[0] + left, at[1] + top, at[0] + right, at[1] + bottom), fill="white")
        draw.text(at, text, fill=_MARK, font=font)
    return np.asarray(canvas).copy()


def written(place: Proposal) -> str:
    """Returns a place's coordinates as they are drawn, such as `(12.3, 45.6)`."""
    return f"({place.x:g}, {place.y:g})"


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
