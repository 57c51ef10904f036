"""Ablations of a checkpoint: given a true description of the state, or shown blank images."""

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
    """Samples like `HFAgent`, but each response starts with a true description of the observed state.

    The description is read from the world, so this is not a competitor: it shows what a policy would solve with perfect
    perception. Images are still shown. Formats without a section for the observed state are refused.
    """

    kind: ClassVar[str] = "hf-told"
    _worlds: VectorWorld | None = None

    def start(self, worlds: VectorWorld, rows: RolloutRows | None = None) -> None:
        """Opens one conversation per world, and stores the worlds."""
        self._worlds = worlds
        super().start(worlds, rows)

    def respond(self, rows: Sequence[int], observations: Sequence[Observation]) -> list[Response]:
        """Returns a response per row: the true description, and the model's continuation.

        Raises:
            ConfigError: If a format has no section for the observed state, or a first observation leaves no room.
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
        return [replace(answer, text=openings[row] + answer.text) for row, answer in zip(rows, responses, strict=True)]


def opening(world: World[Any, Any]) -> str:
    """Returns the start of a response in a world's format, through the end of its true description of the state.

    Raises:
        ConfigError: If the format has no section for it.
    """
    seen = world.seen_sections
    if not seen:
        raise ConfigError(
            f"The format of this world has no section {SEEN!r} for the observed state; it has "
            f"{', '.join(world.turn_format.sections)}. Use --worlds.0.kwargs.prompt-format grounding_worldmodeling."
        )
    text = world.write_response([], seen)
    *_, last = seen.values()
    return text[: text.index(">", text.index(last) + len(last)) + 1]


def can_be_told(world: World[Any, Any]) -> bool:
    """Returns whether a world's format has a section that describes the observed state and nothing else."""
    return bool(world.seen_sections)


class BlindHFAgent(HFAgent):
    """Samples like `HFAgent`, with every image replaced by a uniform gray one of the same size.

    It can still solve levels by text, by priors, or by luck. Gray images were not in its training, so it may solve far
    fewer levels than a policy trained without images: it is a control for one policy, not a competitor. If the text
    describes the state (`obs_mode` other than `"image"`), it still does.
    """

    kind: ClassVar[str] = "hf-blind"

    def respond(self, rows: Sequence[int], observations: Sequence[Observation]) -> list[Response]:
        """Returns a response per row, like `HFAgent.respond`."""
        return super().respond(rows, [blinded(observation) for observation in observations])


def blinded(observation: Observation) -> Observation:
    """Returns an observation with uniform gray images and the same text."""
    hidden = observation.copy()
    if "image" in observation:
        hidden["image"] = np.full_like(observation["image"], GREY)
    if "images" in observation:
        hidden["images"] = tuple(np.full_like(image, GREY) for image in observation["images"])
    return hidden
