"""Absolute facts of a table: where in space each named thing is, in millimetres.

Source: VAGEN, appendix D.1.1, for the state dict of PrimitiveSkill and the tolerance of 10 mm in each of x, y and z;
section 5.1 and D.1.2 for F1 over facts. The paper prints no weights. These choices are ours:

- How far the drawer stands open has the tolerance of a coordinate.
- A cube is on a target where it rests within the tolerance of the target's center, and near a target where no target
  is nearer and this one's center is at most 150 mm away; the paper's state has 127 mm.
- 0.7 for the cubes, 0.3 for all else (targets, the drawer's handle, how far it stands open). A task that has nothing
  else gives the cubes the whole weight; which things there are is the task's choice, never the level's.
- A thing has to be told apart by name where there are several of its kind: prompts may list all positions without
  names, and copying that list is not seeing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

from judges.state_text.metric.language import read_metric_text
from judges.state_text.metric.structured import read_metric_dict
from judges.state_text.metric.words import CUBE, TARGET, MetricClaim, Name, name_of_key
from judges.state_text.tally import Part, Tally
from vlm_envs.errors import ConfigError
from vlm_envs.responses.formats import Representation

_ROUNDING_MM = 1e-6
_NEAR_MM = 150.0
_RESTING_MM = 20.0
"""Height of a cube's center above what it rests on."""
_WEIGHTS = 0.7, 0.3
_Truth = Mapping[Name, tuple[float, ...]]


@dataclass(frozen=True, kw_only=True)
class MetricRules:
    """Rules of worlds whose state names positions in mm, as PrimitiveSkill's does.

    Attributes:
        tolerance_mm: Coordinates and lengths this close to the truth are right, in mm.
        representations: Those that can be read.
    """

    tolerance_mm: float = 10.0
    representations: tuple[Representation, ...] = ("natural_language", "structured")

    def __post_init__(self) -> None:
        """Refuses a tolerance that nothing could meet."""
        if not self.tolerance_mm >= 0.0:
            raise ConfigError(f"tolerance_mm must be at least 0, got {self.tolerance_mm}.")

    def parts(self, text: str, representation: Representation, state: Mapping[str, Any]) -> tuple[Part, ...]:
        """Returns how a text compares with a state; see `judges.state_text.rules.StateTextRules.parts`."""
        truth = _truth_of(state)
        claims = read_metric_dict(text) if representation == "structured" else read_metric_text(text)
        cubes = {name: value for name, value in truth.items() if CUBE in name}
        others = {name: value for name, value in truth.items() if CUBE not in name}
        of_cubes = [claim for claim in claims if CUBE in claim.name]
        of_others = [claim for claim in claims if CUBE not in claim.name]
        cubes_weight, others_weight = _WEIGHTS if cubes and others else (float(bool(cubes)), float(not cubes))
        return (
            Part(name="cubes", weight=cubes_weight, tally=self._tally(of_cubes, cubes, truth)),
            Part(name="others", weight=others_weight, tally=self._tally(of_others, others, truth)),
        )

    def guesses(self, representation: Representation) -> tuple[str, ...]:
        """Returns no texts: nothing lies in the same place often enough."""
        return ()

    def _tally(self, claims: Sequence[MetricClaim], category: _Truth, truth: _Truth) -> Tally:
        """Returns the counts of one category; claims about things that are not there are claimed and wrong."""
        by_name: dict[Name | None, set[MetricClaim]] = {}
        for claim in claims:
            by_name.setdefault(_meant(claim.name, category), set()).add(claim)
        tallies = [
            Tally.of_one_fact(self._is_right(claim, actual, truth) for claim in by_name.get(name, ()))
            for name, actual in category.items()
        ]
        unknown = {(claim.name, claim.value, claim.spot) for claim in by_name.get(None, ())}
        return Tally(
            num_correct=sum(tally.num_correct for tally in tallies),
            num_claimed=sum(tally.num_claimed for tally in tallies) + len(unknown),
            num_true=len(category),
        )

    def _is_right(self, claim: MetricClaim, actual: tuple[float, ...], truth: _Truth) -> bool:
        is_at_value = len(claim.value) == len(actual) and self._is_within(claim.value, actual)
        if claim.spot is None or is_at_value:
            return is_at_value
        targets = {name: place for name, place in truth.items() if TARGET in name}
        spot = _meant(claim.spot, targets)
        if spot is None or len(actual) != 3:
            return False
        x, y, z = targets[spot]
        if claim.value and not self._is_within(claim.value, (x, y, z)):
            return False
        if not claim.is_near:
            return self._is_within((x, y, z + _RESTING_MM), actual)
        nearest = min(targets.values(), key=lambda place: math.dist(place[:2], actual[:2]))
        return nearest == targets[spot] and math.dist((x, y), actual[:2]) <= _NEAR_MM

    def _is_within(self, claimed: tuple[float, ...], actual: tuple[float, ...]) -> bool:
        # Of NaN every comparison is false, as it should be.
        limit = self.tolerance_mm + _ROUNDING_MM
        return all(abs(a - b) <= limit for a, b in zip(claimed, actual, strict=True))


def _meant(claimed: Name, truth: Iterable[Name]) -> Name | None:
    """Returns the one thing that a name stands for, or None where it is absent or ambiguous."""
    candidates = [name for name in truth if claimed <= name]
    if claimed in candidates:
        return claimed
    return candidates[0] if len(candidates) == 1 else None


def _truth_of(state: Mapping[str, Any]) -> dict[Name, tuple[float, ...]]:
    """Returns every entry of a state dict that is a position or a length in mm; the others are not scored."""
    truth: dict[Name, tuple[float, ...]] = {}
    for key, value in state.items():
        if isinstance(value, (tuple, list)) and len(value) == 3:
            truth[name_of_key(key)] = tuple(map(float, value))
        elif key.endswith("_mm") and isinstance(value, Real):
            truth[name_of_key(key)] = (float(value),)
    if not truth:
        raise ConfigError(
            f"Expected a state with positions in mm, got the keys {sorted(state)}. Is this another world's state?"
        )
    return truth
