"""The exact judge: reads a model's state text by rule and scores it against the true state.

Source: VAGEN, section 5.1 (visual reasoning reward) and appendix D.1.2 (structured evaluation by F1).
Deviations, each named:

- Extraction is by rule where the paper asks a language model, so that the score is reproducible and free.
- A world's score is a fixed weighted sum over its categories. A category with nothing in the state (a lake
  without holes) keeps its weight and scores 1 when nothing is claimed for it: renormalising would make the
  same claim about the goal worth more in some levels than in others.
- A text in which no fact can be read scores 0, also where silence on a category would be right.

What a world's facts and categories are is up to its rules, found in one registry:

    text, state ── rules of the world ──> parts (name, weight, tally) ── ExactJudge ──> one score

The grid worlds share `GridRules` and differ by their vocabulary; a world of another kind brings rules of its own.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any, Protocol

import gymnasium as gym
from gymnasium.envs.registration import load_env_creator

from judges.scores import JudgeScore
from judges.state_text.egocentric_rules import EgocentricRules
from judges.state_text.grid_language import MAX_TEXT_CHARS, read_language
from judges.state_text.grid_relations import read_structured, read_symbolic, tally_cells, tally_relations
from judges.state_text.metric_rules import MetricRules
from judges.state_text.tally import Part
from judges.state_text.vocabulary import VOCABULARIES, ObjectVocabulary, world_name
from vlm_envs.adapter.adapter_settings import NAMESPACE as ADAPTED
from vlm_envs.errors import ConfigError
from vlm_envs.registration import NAMESPACE, RESOLVERS, VARIANTS, WORLDS
from vlm_envs.responses.formats import Representation
from vlm_envs.validation import did_you_mean, require_choice


class ExactJudge:
    """Scores state text of one world in one representation by rule; see the module for what it counts.

    Args:
        world: A world's name or an env id, such as `Sokoban` or `VLM/Sokoban-v0`.
        representation: One that the world's rules can read, such as `natural_language`.
        rules: In place of the world's own, for another tolerance or a world that has none yet.

    Raises:
        ConfigError: The world has no exact judge, or not in this representation.
    """

    def __init__(self, world: str, representation: Representation, *, rules: StateTextRules | None = None) -> None:
        self.rules = rules_of(world) if rules is None else rules
        require_choice("representation", representation, self.rules.representations)
        self.representation = representation

    def score(self, text: str, state: Mapping[str, Any]) -> JudgeScore:
        """Returns the weighted F1 of a text against a state, and its parts.

        Args:
            text: Any string; its first `MAX_TEXT_CHARS` characters are read.
            state: The world's typed state dict, as in `info["state"]`.

        Raises:
            ConfigError: The state is another world's. No text raises.
        """
        parts = self.rules.parts(text[:MAX_TEXT_CHARS], self.representation, state)
        num_facts_read = sum(part.tally.num_claimed for part in parts)
        if num_facts_read == 0:
            silent = dict.fromkeys((part.name for part in parts), 0.0)
            return JudgeScore(value=0.0, per_category=silent, reason="no fact could be read")
        return JudgeScore(
            value=min(1.0, math.fsum(part.weight * part.value for part in parts)),
            per_category={part.name: part.value for part in parts},
            num_facts_read=num_facts_read,
            num_facts_right=sum(part.tally.num_correct for part in parts),
            reason="; ".join(f"{part.name}: {part.tally}" for part in parts),
        )


class StateTextRules(Protocol):
    """How the texts of one world are read and what is counted in them."""

    @property
    def representations(self) -> tuple[Representation, ...]:
        """The representations that can be read."""
        ...

    def parts(self, text: str, representation: Representation, state: Mapping[str, Any]) -> tuple[Part, ...]:
        """Returns how a text compares with a state.

        Args:
            text: Any string, already cut to a bounded length; none raises.
            representation: One of `representations`.
            state: The world's typed state dict.

        Returns:
            The parts of the score; their weights sum to 1.

        Raises:
            ConfigError: The state is another world's.
        """
        ...

    def guesses(self, representation: Representation) -> tuple[str, ...]:
        """Returns constant texts that may pay without sight, besides the worlds' own; a chance baseline tries them."""
        ...


class GridRules:
    """Rules of a grid world, which follow from its vocabulary: cells, or relations between them.

    Args:
        vocabulary: The world's kinds of object, their weights and names.
    """

    representations: tuple[Representation, ...] = ("natural_language", "symbolic", "structured")

    def __init__(self, vocabulary: ObjectVocabulary) -> None:
        self.vocabulary = vocabulary

    def parts(self, text: str, representation: Representation, state: Mapping[str, Any]) -> tuple[Part, ...]:
        """Returns how a text compares with a state; see `StateTextRules.parts`."""
        vocabulary = self.vocabulary
        # Half of all sides are right by chance, cells hardly ever: only of sides a wrong claim cancels a right one.
        is_net = representation == "natural_language"
        if is_net:
            tallies = tally_relations(read_language(text, vocabulary), state, vocabulary)
        else:
            read = read_structured if representation == "structured" else read_symbolic
            tallies = tally_cells(read(text, vocabulary), state, vocabulary)
        return tuple(
            Part(c.name, c.weight, tallies[c.name], score=tallies[c.name].net_f1 if is_net else None)
            for c in vocabulary.categories
        )

    def guesses(self, representation: Representation) -> tuple[str, ...]:
        """Returns no texts: the worlds' own are the best there are, as they name what every level has."""
        return ()


RULES: dict[str, StateTextRules] = {
    **{world: GridRules(vocabulary) for world, vocabulary in VOCABULARIES.items()},
    "Navigation": EgocentricRules(),
    **dict.fromkeys((f"PrimitiveSkill{task}" for task in ("", "Place", "Stack", "Drawer", "Align")), MetricRules()),
}
"""Rules of every world that is judged exactly."""

UNJUDGED: dict[str, str] = {
    "SVG": "Its state is a drawing, which the world's own reward compares as a whole; the paper judges no text of it. "
    "Training leaves the judge's terms out for it."
}
"""Worlds without an exact judge, and why."""


def judged_name(world: str) -> str:
    """Returns the name that a world's rules are kept under.

    Args:
        world: `Navigation`, `VLM/Navigation-v0`, `vlm_envs:VLM/Navigation-v0`, or an id of one's own.

    Returns:
        An id that has rules of its own, whole; the name of a world of this package, also where the id is another
        registration of it, in whatever namespace, or of a subclass; otherwise the id without its module.
    """
    prefix, _, described = world.partition(":")
    env_id = RESOLVERS[prefix](described) if prefix in RESOLVERS else world.rpartition(":")[2]
    if env_id in RULES:
        return env_id
    registered = gym.registry.get(env_id)
    if registered is None:
        return world_name(env_id) if env_id.rpartition("/")[0] in ("", NAMESPACE) else env_id
    base_id = _base_id(registered.entry_point)
    if base_id is None:
        return env_id
    return world_name(env_id if env_id in WORLDS or env_id in VARIANTS else base_id)


def _base_id(entry_point: object) -> str | None:
    """Returns the id of the world of this package that an entry point makes; None if it makes somebody else's.

    Args:
        entry_point: What Gymnasium knows: text, a class (a subclass is judged as its base) or arguments bound to one.
    """
    known = {entry_point: env_id for env_id, entry_point in WORLDS.items()}
    if isinstance(entry_point, str):
        if entry_point in known:
            return known[entry_point]
        try:
            entry_point = load_env_creator(entry_point)
        except Exception:  # whatever somebody else's module raises on import; making the world says it
            return None
    while isinstance(entry_point, functools.partial):
        entry_point = entry_point.func
    bases = entry_point.__mro__ if isinstance(entry_point, type) else ()
    names = (f"{base.__module__}:{base.__qualname__}" for base in bases)
    return next((known[name] for name in names if name in known), None)


def has_rules(world: str) -> bool:
    """Returns whether a world's texts can be judged by rule; takes what `rules_of` takes."""
    return judged_name(world) in RULES


def rules_of(world: str) -> StateTextRules:
    """Returns a world's rules, by its name or by an env id.

    Args:
        world: `Navigation`, `VLM/Navigation-v0` or `vlm_envs:VLM/Navigation-v0`; an id of one's own for what
            `RULES[id]` holds, or for another registration of a world of this package or of a subclass.

    Raises:
        ConfigError: The world has no exact judge, or nothing has that name.
    """
    name = judged_name(world)
    if name in RULES:
        return RULES[name]
    if name in UNJUDGED:
        raise ConfigError(f"{world!r} has no exact judge. {UNJUDGED[name]}")
    if name.startswith(f"{ADAPTED}/"):
        raise ConfigError(f"{world!r} is an adapted world, and judges have no rules for those.")
    raise ConfigError(
        f"There are no rules to judge {world!r} by.{did_you_mean(name, RULES)} "
        f"Judged worlds: {', '.join(RULES)}. For a world of your own: "
        f"judges.state_text.exact_judge.RULES[{world.rpartition(':')[2]!r}] = its StateTextRules."
    )
