"""Facts of a search through a home: directions and distances of objects.

Source: VAGEN, appendix D.1.1, for the state dict of Navigation; section 5.1 and D.1.2 for F1 over facts. The
paper prints neither weights nor tolerances. These are ours:

- 0.5 for the target's direction, one of four. Naming two earns nothing, except for a combined direction such as
  "ahead and to the left": it is right if its primary direction is (appendix D.1.1), and half right if only its side
  is.
- 0.2 for its distance, right within 15 % or 0.25 m, whichever is larger; 0.25 m is one step of the player. A wrong
  distance subtracts from the direction as much as a right one adds, because most targets start at a common distance.
- 0.3 for the visible objects, each a type with a direction. Such a pair is right or wrong. A general name may stand
  for several types, so claims are matched to objects optimally. The five nearest must be named; naming further visible
  objects has no penalty.

Claims about an object that the text calls the target, but by the name of a different object, are wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from judges.state_text.egocentric_text import (
    ObjectMention,
    is_name_of,
    plain,
    read_egocentric_dict,
    read_egocentric_text,
)
from judges.state_text.tally import Part, Tally, best_matching
from vlm_envs.errors import ConfigError
from vlm_envs.responses.formats import Representation
from vlm_envs.validation import require_at_least

_ROUNDING_M = 1e-6
_DIRECTION_WEIGHT, _DISTANCE_WEIGHT, _VISIBLE_WEIGHT = 0.5, 0.2, 0.3
_NEAR, _SEPARATE = 0.1, 0.01
"""Bonuses that break ties between matchings with equally many pairs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Surroundings:
    """The part of the true state that is judged.

    Attributes:
        target: The target's type, as letters only.
        direction: The target's direction.
        distance_m: The target's distance in meters.
        visible: Type and direction of each visible object, the nearest first.
        others: The types of visible objects other than the target's type.
    """

    target: str
    direction: str
    distance_m: float
    visible: tuple[tuple[str, str], ...]
    others: frozenset[str]

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> Surroundings:
        """Reads the judged part of a state dict.

        Raises:
            ConfigError: The state is from another world.
        """
        try:
            target = plain(state["target_obj_type"])
            visible = tuple((plain(seen["type"]), seen["direction_to_player"]) for seen in state["visible_objects"])
            return cls(
                target=target,
                direction=state["target_direction_to_player"],
                distance_m=float(state["target_distance_to_player"]),
                visible=visible,
                others=frozenset(type_ for type_, _ in visible) - {target},
            )
        except KeyError as missing:
            raise ConfigError(
                f"Expected a state with {missing}, got the keys {sorted(state)}. Is this another world's state?"
            ) from missing

    def names_target(self, mention: ObjectMention) -> bool:
        """Returns whether a mention's name, if it has one, is the target's."""
        return not mention.name or is_name_of(mention.name, self.target)

    def is_of_target(self, mention: ObjectMention) -> bool:
        """Returns whether a mention refers to the target: by that word, or by a name that fits nothing else better."""
        if mention.is_target or mention.is_listed:
            return mention.is_target
        fits_better = mention.name != self.target and any(is_name_of(mention.name, other) for other in self.others)
        return is_name_of(mention.name, self.target) and not fits_better


@dataclass(frozen=True, kw_only=True)
class EgocentricRules:
    """Rules for search worlds with Navigation's state dict.

    Attributes:
        tolerance_m: Maximum error of a right distance, in meters.
        relative_tolerance: The same as a share of the true distance; the larger of the two applies.
        num_visible: Number of visible objects that must be named, the nearest first.
        representations: Representations that can be read.
    """

    tolerance_m: float = 0.25
    relative_tolerance: float = 0.15
    num_visible: int = 5
    representations: tuple[Representation, ...] = ("natural_language", "structured")

    def __post_init__(self) -> None:
        """Raises `ConfigError` for negative values."""
        require_at_least(self, 0, "tolerance_m", "relative_tolerance", "num_visible")

    def parts(self, text: str, representation: Representation, state: Mapping[str, Any]) -> tuple[Part, ...]:
        """Returns how a text compares with a state; see `judges.state_text.exact_judge.StateTextRules.parts`."""
        truth = Surroundings.of(state)
        is_dict = representation == "structured"
        mentions = read_egocentric_dict(text) if is_dict else read_egocentric_text(text, truth.others | {truth.target})
        of_target = [mention for mention in mentions if truth.is_of_target(mention)]
        others = [mention for mention in mentions if not truth.is_of_target(mention)]
        direction, distance = _tally_direction(of_target, truth), self._tally_distance(of_target, truth)
        visible = self._tally_visible(others, of_target, truth)
        score = direction.f1 * _half_right(of_target, truth)
        if distance.num_claimed > distance.num_correct:
            score = max(0.0, score - _DISTANCE_WEIGHT / _DIRECTION_WEIGHT)
        return (
            Part(name="target_direction", weight=_DIRECTION_WEIGHT, tally=direction, score=score),
            Part(name="target_distance", weight=_DISTANCE_WEIGHT, tally=distance),
            Part(name="visible_objects", weight=_VISIBLE_WEIGHT, tally=visible),
        )

    def guesses(self, representation: Representation) -> tuple[str, ...]:
        """Returns texts that place "the target" in every direction and at common distances."""
        phrases = {"ahead": "ahead", "left": "to the left", "right": "to the right", "back": "behind"}
        distances_m = [step / 2 for step in range(1, 15)]
        if representation == "natural_language":
            return tuple(f"the target is {phrase} at {m} m." for phrase in phrases.values() for m in distances_m)
        keys = "target_direction_to_player: {}, target_distance_to_player: {}"
        return tuple(f"{{{keys.format(direction, m)}}}" for direction in phrases for m in distances_m)

    def _tally_distance(self, of_target: Sequence[ObjectMention], truth: Surroundings) -> Tally:
        tolerance_m = max(self.tolerance_m, self.relative_tolerance * truth.distance_m) + _ROUNDING_M
        claims = {(claimed, truth.names_target(mention)) for mention in of_target for claimed in mention.distances_m}
        # Comparisons with NaN are false, as intended.
        return Tally.of_one_fact(named and abs(claimed - truth.distance_m) <= tolerance_m for claimed, named in claims)

    def _tally_visible(
        self, others: Sequence[ObjectMention], of_target: Sequence[ObjectMention], truth: Surroundings
    ) -> Tally:
        """Counts the pairs of type and direction.

        A claim about the target's position does not claim that the target is visible. If the target is visible and no
        other claim names it there, this claim counts as one of the pairs.
        """
        claims = [mention for mention in others if mention.directions]
        free = [mention for mention in of_target if len(mention.directions) == 1]
        num_near = min(self.num_visible, len(truth.visible))
        pairs = _best_pairs(claims, free, truth.visible, num_near)
        return Tally(
            num_correct=len(pairs),
            num_claimed=len(claims) + sum(row >= len(claims) for row, _ in pairs),
            num_true=num_near + sum(column >= num_near for _, column in pairs),
        )


def _tally_direction(of_target: Sequence[ObjectMention], truth: Surroundings) -> Tally:
    claims = {(claimed, truth.names_target(mention)) for mention in of_target for claimed in mention.directions}
    return Tally.of_one_fact(named and truth.direction in claimed.split() for claimed, named in claims)


def _half_right(of_target: Sequence[ObjectMention], truth: Surroundings) -> float:
    """Returns 0.5 if all claims are combined directions whose primary direction is wrong, else 1."""
    claims = {direction for mention in of_target for direction in mention.directions}
    return 0.5 if claims and all(claim.split()[0] != truth.direction for claim in claims) else 1.0


def _best_pairs(
    claims: Sequence[ObjectMention], free: Sequence[ObjectMention], visible: Sequence[tuple[str, str]], num_near: int
) -> list[tuple[int, int]]:
    """Pairs claims, then free mentions, with the visible objects that they describe correctly, preferring near ones."""
    rows = [*claims, *free]
    gains = np.zeros((len(rows), len(visible)))
    for row, mention in enumerate(rows):
        claimed = {direction.split()[0] for direction in mention.directions}
        for column, (type_, direction) in enumerate(visible):
            if claimed == {direction} and is_name_of(mention.name, type_):
                gains[row, column] = 1.0 + _NEAR * (column < num_near) + _SEPARATE * (row < len(claims))
    return [pair for pair in best_matching(gains) if gains[pair] > 0.0]
