"""The exact judge: reads a model's state text by rule and scores it against the true state.

Source: VAGEN, section 5.1 (visual reasoning reward) and appendix D.1.2 (structured evaluation by F1).
Deviations:

- Extraction is by rule instead of by a language model, so that the score is reproducible and free.
- A world's score is a fixed weighted sum over its categories. A category without objects in the state (a lake
  without holes) keeps its weight and scores 1 if nothing is claimed for it. Renormalizing would make the same
  claim about the goal worth more in some levels than in others.
- A text without any readable fact scores 0, even if saying nothing about a category would be right.

A world's rules, which one registry contains, define its facts and categories:

    text, state ── rules of the world ──> parts (name, weight, tally) ── ExactJudge ──> one score

The grid worlds share `GridRules` and differ in their vocabulary; worlds of other kinds have their own rules.
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
    """Scores state text of one world in one representation by rule, as the module docstring describes.

    Args:
        world: A world's name or an env id, such as `Sokoban` or `VLM/Sokoban-v0`.
        representation: One that the world's rules can read, such as `natural_language`.
        rules: Override the world's own rules, such as for a different tolerance or a world without rules.

    Raises:
        ConfigError: The world has no exact judge, or none for this representation.
    """

    def __init__(self, world: str, representation: Representation, *, rules: StateTextRules | None = None) -> None:
        self.rules = rules_of(world) if rules is None else rules
        require_choice("representation", representation, self.rules.representations)
        self.representation = representation

    def score(self, text: str, state: Mapping[str, Any]) -> JudgeScore:
        """Returns the weighted F1 of a text against a state, and its parts.

        Args:
            text: Any string; only its first `MAX_TEXT_CHARS` characters are read.
            state: The world's typed state dict, as in `info["state"]`.

        Raises:
            ConfigError: The state is from another world. No text raises an error.
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
    """Rules for reading the texts of one world and counting their facts."""

    @property
    def representations(self) -> tuple[Representation, ...]:
        """The representations that can be read."""
        ...

    def parts(self, text: str, representation: Representation, state: Mapping[str, Any]) -> tuple[Part, ...]:
        """Returns how a text compares with a state.

        Args:
            text: Any string, already cut to a bounded length; no string raises an error.
            representation: One of `representations`.
            state: The world's typed state dict.

        Returns:
            The parts of the score; their weights sum to 1.

        Raises:
            ConfigError: The state is from another world.
        """
        ...

    def guesses(self, representation: Representation) -> tuple[str, ...]:
        """Returns constant texts that may score without sight, for chance baselines."""
        ...


class GridRules:
    """Rules of a grid world, derived from its vocabulary: cells, or relations between them.

    Args:
        vocabulary: The world's kinds of objects, their weights, and their names.
    """

    representations: tuple[Representation, ...] = ("natural_language", "symbolic", "structured")

    def __init__(self, vocabulary: ObjectVocabulary) -> None:
        self.vocabulary = vocabulary

    def parts(self, text: str, representation: Representation, state: Mapping[str, Any]) -> tuple[Part, ...]:
        """Returns how a text compares with a state; see `StateTextRules.parts`."""
        vocabulary = self.vocabulary
        # Chance makes half of all sides right but hardly any cell, so wrong claims cancel right ones only for sides.
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
        """Returns no texts: the worlds' own texts are the best guesses, because they name what every level has."""
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
        world: `Navigation`, `VLM/Navigation-v0`, `vlm_envs:VLM/Navigation-v0`, or the id of a user's world.

    Returns:
        The whole id if it has its own rules; the name of a world of this package, even if the id registers it or a
        subclass in another namespace; otherwise the id without its module.
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
    """Returns the id of the world of this package that an entry point makes; None if it makes a different world.

    Args:
        entry_point: A Gymnasium entry point: text, a class (a subclass is judged as its base), or a partial of a class.
    """
    env_ids = {entry_point: env_id for env_id, entry_point in WORLDS.items()}
    if isinstance(entry_point, str):
        if entry_point in env_ids:
            return env_ids[entry_point]
        try:
            entry_point = load_env_creator(entry_point)
        except Exception:  # any error from importing a user's module; making the world reports it
            return None
    while isinstance(entry_point, functools.partial):
        entry_point = entry_point.func
    bases = entry_point.__mro__ if isinstance(entry_point, type) else ()
    names = (f"{base.__module__}:{base.__qualname__}" for base in bases)
    return next((env_ids[name] for name in names if name in env_ids), None)


def has_rules(world: str) -> bool:
    """Returns whether a world's texts can be judged by rule; takes the same argument as `rules_of`."""
    return judged_name(world) in RULES


def rules_of(world: str) -> StateTextRules:
    """Returns a world's rules, by its name or by an env id.

    Args:
        world: `Navigation`, `VLM/Navigation-v0`, or `vlm_envs:VLM/Navigation-v0`; or the id of a user's world that is
            in `RULES` or registers a world of this package or a subclass.

    Raises:
        ConfigError: The world has no exact judge, or there is no such world.
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
