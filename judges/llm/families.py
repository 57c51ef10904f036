"""The families of worlds that language models judge: their prompts, their truth and what is extracted from texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from judges.llm.extraction import EgocentricExtraction, Extraction, GridExtraction, MetricExtraction
from judges.state_text.grid.vocabulary import cells_at
from judges.state_text.rules import judged_name, rules_of
from vlm_envs.errors import ConfigError, did_you_mean
from vlm_envs.responses.formats import Representation
from vlm_envs.worlds.grids.grid_levels import named_cells, relation_text, relations_of

State = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    """Worlds that are judged alike.

    Attributes:
        prompts: Folder of `judges/llm/prompts` with the family's prompts.
        representations: Those that a language model is asked about; texts in others are read by rule as they are.
        extraction: What is extracted from a text.
        truth: What a judge model is told of the true state, of JSON's types.
        context: What a reader of a text has to know of the task; nothing of the state.
    """

    prompts: str
    representations: tuple[Representation, ...]
    extraction: type[Extraction]
    truth: Callable[[State], Any] = dict
    context: Callable[[State], Mapping[str, str]] = lambda state: {}


def family_of(world: str, representation: Representation) -> Family:
    """Returns the family of a world, given by its name or an env id.

    Raises:
        ConfigError: No language model judges this world, or not in this representation.
    """
    name = judged_name(world)
    rules_of(world)  # A world without facts says so itself.
    family = FAMILIES.get("PrimitiveSkill" if name.startswith("PrimitiveSkill") else name)
    if family is None:
        raise ConfigError(
            f"There are no judge prompts for {world!r}.{did_you_mean(name, FAMILIES)} Families: {', '.join(FAMILIES)}. "
            "Add a folder to judges/llm/prompts and an entry to judges.llm.families.FAMILIES."
        )
    if representation not in family.representations:
        raise ConfigError(
            f"A language model judges {name} in {', '.join(family.representations)}, not in {representation!r}. "
            "The exact judge reads that by rule, without cost or error."
        )
    return family


def _sokoban_truth(state: State) -> list[str]:
    player = {"the player": cells_at(state, "player_position")[0]}
    boxes = named_cells("box", cells_at(state, "box_positions"))
    targets = named_cells("target", cells_at(state, "target_positions"))
    relations = relations_of(boxes, player) + relations_of(targets, player) + relations_of(targets, boxes)
    return [relation_text(relation) for relation in relations]


def _frozen_lake_truth(state: State) -> list[str]:
    things = {"the target": cells_at(state, "target_position")[0]}
    things |= named_cells("hole", cells_at(state, "hole_positions"))
    player = {"the player": cells_at(state, "player_position")[0]}
    return [relation_text(relation) for relation in relations_of(things, player)]


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
