"""What a teacher is shown beside the question, so that it can say exactly where things are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vlm_envs.validation import field_name, require


@dataclass(frozen=True, kw_only=True)
class PointingConfig:
    """Points that are drawn into the pictures for the teacher, with their coordinates; what is kept has the originals.

    Source: Argos, sections 4.1 and 4.2, appendix C: GPT-4o proposes, Molmo-7B points, GLM-4.1V is shown both.

    Attributes:
        points: Where they come from: `"none"` draws none; `"exact"` takes what the question's evidence says, of
            generated pictures and of data with boxes; `"models"` asks the two below.
        proposer: An agent that names what there is to look at, given question, right answer and pictures: such as
            `compatible:NAME@URL` or `hf:DIR`.
        pointer: An agent that points at what it is given, in percents of the picture, as Molmo does.
    """

    points: Literal["none", "exact", "models"] = "none"
    proposer: str | None = None
    pointer: str | None = None

    def __post_init__(self) -> None:
        points, given = field_name(self, "points"), {"proposer": self.proposer, "pointer": self.pointer}
        missing = " and ".join(field_name(self, name) for name, agent in given.items() if agent is None)
        named = " and ".join(f"{field_name(self, name)} {agent}" for name, agent in given.items() if agent is not None)
        require(
            self.points != "models" or not missing,
            f"{points} models asks models what to look at and where it is: say which with {missing} NAME, such as "
            f"compatible:NAME@URL, or take what is known of generated pictures: {points} exact.",
        )
        require(
            self.points == "models" or not named,
            f"{named} would do nothing with {points} {self.points}. Leave it out, or use {points} models.",
        )
