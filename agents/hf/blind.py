"""A checkpoint that is shown nothing: how far does a policy come that cannot look?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agents.agent import Response
from agents.hf.agent import HFAgent
from vlm_envs.trajectory import Observation

GREY = 127


class BlindHFAgent(HFAgent):
    """Samples as `HFAgent` does, and every picture it is shown is grey, of the size that it would have.

    What it still solves it solves by the text, by what is likely, or by luck; a policy that looks falls to what a lazy
    rival has, or below, for nothing like this was in its training.
    """

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
