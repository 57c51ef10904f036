"""Ablations of a checkpoint: told in words what it should see, or shown blank images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from agents.agent import Response, RolloutRows
from agents.hf.hf_agent import HFAgent
from vlm_envs.errors import ConfigError
from vlm_envs.trajectory import Observation
from vlm_envs.vector.vector_world import VectorWorld
from vlm_envs.world import SEEN, World

GREY = 127


class ToldHFAgent(HFAgent):
    """Samples as `HFAgent` does, but the description of what is seen is written for it, true, in each response.

    The world is read for it, so it is no contestant: it shows what a policy would solve if it saw perfectly. Pictures
    are shown all the same. Formats that have no place for what is seen are refused.
    """

    kind: ClassVar[str] = "hf-told"
    _worlds: VectorWorld | None = None

    def start(self, worlds: VectorWorld, rows: RolloutRows | None = None) -> None:
        """Opens one conversation per world, and takes hold of the worlds."""
        self._worlds = worlds
        super().start(worlds, rows)

    def respond(self, rows: Sequence[int], observations: Sequence[Observation]) -> list[Response]:
        """Returns a response per row: what was written for it, and what it went on with.

        Raises:
            ConfigError: If a format has no place for what is seen, or a first observation leaves no room.
        """
        assert self._worlds is not None, "start() comes before respond()"
        openings = self._worlds.apply(dict.fromkeys(rows, opening))
        segments = [
            replace(segment, ids=np.append(segment.ids, self.encoder.encode_text(openings[row], is_start=True)))
            for row, segment in zip(rows, self._conversations.segments(rows, observations), strict=True)
        ]
        with self._evaluating():
            samples = self._sampler.continue_rows(rows, segments)
        responses = self._conversations.responses(rows, segments, samples)
        return [replace(each, text=openings[row] + each.text) for row, each in zip(rows, responses, strict=True)]


def opening(world: World[Any, Any]) -> str:
    """Returns the beginning of a response in a world's format, through the end of its true description of the state.

    Raises:
        ConfigError: If the format has no place for it.
    """
    seen = world.seen_sections
    if not seen:
        raise ConfigError(
            f"The format of this world has no section {SEEN!r} in which to tell what is seen; it has "
            f"{', '.join(world.turn_format.sections)}. Use --worlds.0.kwargs.prompt-format grounding_worldmodeling."
        )
    text = world.write_response([], seen)
    *_, last = seen.values()
    return text[: text.index(">", text.index(last) + len(last)) + 1]


def can_be_told(world: World[Any, Any]) -> bool:
    """Returns whether a world's format has a place where a model tells what it sees, and nothing else."""
    return bool(world.seen_sections)


class BlindHFAgent(HFAgent):
    """Samples as `HFAgent` does, and every picture it is shown is grey, of the size that it would have.

    What it still solves it solves by the text, by what is likely, or by luck. Nothing like grey was in its training, so
    it may solve far less than who has learnt to do without pictures: it is a control of one policy, and no rival. Where
    the text tells the state (`obs_mode` other than `"image"`), it is told all the same.
    """

    kind: ClassVar[str] = "hf-blind"

    def respond(self, rows: Sequence[int], observations: Sequence[Observation]) -> list[Response]:
        """Returns a response per row, as `HFAgent.respond`."""
        return super().respond(rows, [blinded(observation) for observation in observations])


def blinded(observation: Observation) -> Observation:
    """Returns an observation whose pictures are grey; the text is as it was."""
    hidden = observation.copy()
    if "image" in observation:
        hidden["image"] = np.full_like(observation["image"], GREY)
    if "images" in observation:
        hidden["images"] = tuple(np.full_like(picture, GREY) for picture in observation["images"])
    return hidden
