"""A checkpoint whose pictures are grey: how far does a policy come that cannot look?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from agents.agent import Response
from agents.hf.agent import HFAgent
from vlm_envs.trajectory import Observation

GREY = 127


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
