"""Families of worlds that language models judge: their prompts, their truth, and the claims extracted from a text.

An extraction holds a text's claims, true or not. It is strict about structure, so that a reply in any other form is
unreadable, and lenient about names, so that odd names cannot make a text unreadable.

Source: VAGEN, appendix D.1.2: natural language to a dictionary by a language model, then F1 by program. The
paper does not print its dictionaries; these are ours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Protocol, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agents.api.failures import UnreadableReplyError
from judges.llm.judge_prompts import read_object
from judges.state_text.exact_judge import judged_name, rules_of
from judges.state_text.vocabulary import Cell, cells_at
from vlm_envs.errors import ConfigError
from vlm_envs.responses.formats import Representation
from vlm_envs.validation import did_you_mean
from vlm_envs.worlds.grids.grid_levels import RELATION_PHRASES, named_cells, relation_text, relations_of

_MAX_NUMBER = 1e6
_MAX_NAME_CHARS = 40

Vertical = Literal["above", "same", "below"]
Horizontal = Literal["left", "same", "right"]
Direction = Literal["ahead", "left", "right", "back"]

_SIGNS = {"above": -1, "left": -1, "same": 0, "below": 1, "right": 1}
_VERTICAL_PHRASES: dict[Vertical | None, str] = {"above": "above", "same": "at the same row as", "below": "below"}
_HORIZONTAL_PHRASES: dict[Horizontal | None, str] = {
    "left": "to the left of",
    "same": "at the same column as",
    "right": "to the right of",
}
_GRID_NAME = re.compile(r"(player)|(box|target|hole)([0-9]{0,2})")

State = Mapping[str, Any]


class Extraction(Protocol):
    """A text's claims, in a form that the exact judge can read."""

    representation: ClassVar[Representation]
    """The representation of `exact_text`."""

    @classmethod
    def read(cls, reply: str) -> Self:
        """Parses a reply; raises `UnreadableReplyError` if it is not in the requested form."""
        ...

    def exact_text(self) -> str:
        """Returns the claims as text in `representation`; empty without claims."""
        ...


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    @classmethod
    def read(cls, reply: str) -> Self:
        """Parses a reply's JSON object; see `Extraction.read`."""
        try:
            return cls.model_validate(read_object(reply))
        except ValidationError as error:
            first = error.errors()[0]
            location = ".".join(map(str, first["loc"]))
            raise UnreadableReplyError(f"{location[:60]}: {first['msg'][:100]}") from error


class RelationClaim(_Strict):
    """One object's position relative to another; an axis without a claim is None."""

    subject: str
    vertical: Vertical | None = None
    horizontal: Horizontal | None = None
    object: str

    def clause(self) -> str | None:
        """Returns the relation as a sentence, or None if it claims nothing or names an unknown object."""
        subject, anchor = _grid_name(self.subject), _grid_name(self.object)
        phrase = _VERTICAL_PHRASES.get(self.vertical) or _HORIZONTAL_PHRASES.get(self.horizontal)
        if self.vertical is not None and self.horizontal is not None:
            phrase = RELATION_PHRASES[_SIGNS[self.vertical], _SIGNS[self.horizontal]]
        return f"{subject} is {phrase} {anchor}." if subject and anchor and phrase else None


class GridExtraction(_Strict):
    """Relations between the objects of a grid world."""

    representation: ClassVar[Representation] = "natural_language"
    relations: Annotated[list[RelationClaim], Field(max_length=120)]

    def exact_text(self) -> str:
        """Returns the relations as sentences in the grid worlds' own wording."""
        return " ".join(clause for relation in self.relations if (clause := relation.clause()))


class TargetClaim(_Strict):
    """The claimed direction and distance of the target."""

    direction: Direction | None = None
    distance_m: float | None = None


class ObjectClaim(TargetClaim):
    """An object that is claimed to be in sight."""

    type: str


class EgocentricExtraction(_Strict):
    """Directions and distances of the target and the visible objects from the player's view."""

    representation: ClassVar[Representation] = "structured"
    target: TargetClaim | None = None
    visible_objects: Annotated[list[ObjectClaim], Field(max_length=60)]

    def exact_text(self) -> str:
        """Returns the claims as a dictionary like the world's."""
        target = self.target or TargetClaim()
        fields = _known(
            target_direction_to_player=target.direction, target_distance_to_player=_bounded(target.distance_m)
        )
        objects = [
            _known(
                type=_words(claim.type) or "thing",
                direction_to_player=claim.direction,
                distance_to_player=_bounded(claim.distance_m),
            )
            for claim in self.visible_objects
        ]
        return json.dumps(fields | {"visible_objects": objects}) if fields or objects else ""


class PositionClaim(_Strict):
    """The claimed position of an object, in mm."""

    name: str
    xyz: Annotated[list[float], Field(min_length=3, max_length=3)]


class MetricExtraction(_Strict):
    """Named positions on a table; a name may occur twice, because a text may contradict itself."""

    representation: ClassVar[Representation] = "structured"
    positions: Annotated[list[PositionClaim], Field(max_length=60)]
    drawer_open_mm: float | None = None

    def exact_text(self) -> str:
        """Returns the positions as a dictionary like the world's."""
        entries = [
            f"{(_words(claim.name) or 'thing').replace(' ', '_')}_position: "
            f"({', '.join(f'{_bounded(coordinate):.1f}' for coordinate in claim.xyz)})"
            for claim in self.positions
        ]
        if self.drawer_open_mm is not None:
            entries.append(f"drawer_open_mm: {_bounded(self.drawer_open_mm):.1f}")
        return f"{{{', '.join(entries)}}}" if entries else ""


def _grid_name(name: str) -> str | None:
    match = _GRID_NAME.fullmatch(name.strip().lower().removeprefix("the "))
    if match is None:
        return None
    return "the player" if match[1] else f"{match[2]}{match[3]}"


def _words(name: str) -> str:
    words = re.sub("[^a-z]+", " ", re.sub("(?<=[a-z])(?=[A-Z])", " ", name[:200]).lower()).split()
    return " ".join(words)[:_MAX_NAME_CHARS].strip()


def _bounded(number: float | None) -> float | None:
    # Absurd numbers stay wrong when they are clipped, and readers never see their exponents.
    return None if number is None else max(-_MAX_NUMBER, min(_MAX_NUMBER, number))


def _known(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


@dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    """Worlds that share judge prompts and an extraction.

    Attributes:
        prompts: Folder of `judges/llm/prompts` with the family's prompts.
        representations: Representations that a language model judges; the exact judge reads the others by rule.
        extraction: The form of the claims extracted from a text.
        truth: Maps a state to the truth that a judge model is given; JSON types only.
        context: Maps a state to the task context that a reader of the text needs; reveals nothing about the state.
    """

    prompts: str
    representations: tuple[Representation, ...]
    extraction: type[Extraction]
    truth: Callable[[State], Any] = dict
    context: Callable[[State], Mapping[str, str]] = lambda state: {}


def family_of(world: str, representation: Representation) -> Family:
    """Returns the family of a world, given by its name or an env id.

    Raises:
        ConfigError: Language models do not judge this world, or not in this representation.
    """
    name = judged_name(world)
    rules_of(world)  # raises the specific error of a world without rules
    family = FAMILIES.get("PrimitiveSkill" if name.startswith("PrimitiveSkill") else name)
    if family is None:
        raise ConfigError(
            f"There are no judge prompts for {world!r}.{did_you_mean(name, FAMILIES)} Families: {', '.join(FAMILIES)}. "
            "Add a folder to judges/llm/prompts and an entry to judges.llm.claim_extraction.FAMILIES."
        )
    if representation not in family.representations:
        raise ConfigError(
            f"A language model judges {name} in {', '.join(family.representations)}, not in {representation!r}. "
            "Use the exact judge, which reads that by rule, at no cost and without errors."
        )
    return family


def _relations(*pairs: tuple[Mapping[str, Cell], Mapping[str, Cell]]) -> list[str]:
    return [relation_text(relation) for pair in pairs for relation in relations_of(*pair)]


def _sokoban_truth(state: State) -> list[str]:
    player = {"the player": cells_at(state, "player_position")[0]}
    boxes = named_cells("box", cells_at(state, "box_positions"))
    targets = named_cells("target", cells_at(state, "target_positions"))
    return _relations((boxes, player), (targets, player), (targets, boxes))


def _frozen_lake_truth(state: State) -> list[str]:
    goal = {"the target": cells_at(state, "target_position")[0]}
    holes = named_cells("hole", cells_at(state, "hole_positions"))
    return _relations((goal | holes, {"the player": cells_at(state, "player_position")[0]}))


def _navigation_context(state: State) -> dict[str, str]:
    if "target_obj_type" not in state:
        raise ConfigError(
            f"Expected a state with 'target_obj_type', got the keys {sorted(state)}. Is this another world's state?"
        )
    return {"target": str(state["target_obj_type"])}


FAMILIES: dict[str, Family] = {
    "Sokoban": Family(
        prompts="sokoban",
        representations=("natural_language",),
        truth=_sokoban_truth,
        extraction=GridExtraction,
    ),
    "FrozenLake": Family(
        prompts="frozen_lake",
        representations=("natural_language",),
        truth=_frozen_lake_truth,
        extraction=GridExtraction,
    ),
    "Navigation": Family(
        prompts="navigation",
        representations=("natural_language", "structured"),
        context=_navigation_context,
        extraction=EgocentricExtraction,
    ),
    "PrimitiveSkill": Family(
        prompts="primitive_skill",
        representations=("natural_language", "structured"),
        extraction=MetricExtraction,
    ),
}
"""Family of every judged world by name; the worlds of PrimitiveSkill share one."""
