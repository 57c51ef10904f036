"""Absolute facts of a table: where in space each named thing is, in millimetres.

Source: VAGEN, appendix D.1.1, for the state dict of PrimitiveSkill; section 5.1 and D.1.2 for F1 over facts. The
paper prints neither weights nor a tolerance. These are ours:

- An entry counts when it is within 20 mm of the truth, half the width of a cube, along a straight line.
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
from judges.state_text.metric.words import CUBE, MetricClaim, Name, name_of_key
from judges.state_text.tally import Part, Tally
from vlm_envs.errors import ConfigError
from vlm_envs.responses.formats import Representation

_ROUNDING_MM = 1e-6
_WEIGHTS = 0.7, 0.3
_Truth = Mapping[Name, tuple[float, ...]]


@dataclass(frozen=True, kw_only=True)
class MetricRules:
    """Rules of worlds whose state names positions in mm, as PrimitiveSkill's does.

    Attributes:
        tolerance_mm: Entries this close to the truth are right, in mm.
        representations: Those that can be read.
    """

    tolerance_mm: float = 20.0
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
            Part(name="cubes", weight=cubes_weight, tally=self._tally(of_cubes, cubes)),
            Part(name="others", weight=others_weight, tally=self._tally(of_others, others)),
        )

    def guesses(self, representation: Representation) -> tuple[str, ...]:
        """Returns no texts: nothing lies in the same place often enough."""
        return ()

    def _tally(self, claims: Sequence[MetricClaim], truth: _Truth) -> Tally:
        """Returns the counts of one category; what is claimed of things that are not there is claimed and wrong."""
        by_name: dict[Name | None, set[tuple[float, ...]]] = {}
        for claim in claims:
            by_name.setdefault(_meant(claim, truth), set()).add(claim.value)
        tallies = [
            Tally.of_one_fact(self._is_right(value, actual) for value in by_name.get(name, ()))
            for name, actual in truth.items()
        ]
        return Tally(
            num_correct=sum(tally.num_correct for tally in tallies),
            num_claimed=sum(tally.num_claimed for tally in tallies) + len(by_name.get(None, ())),
            num_true=len(truth),
        )

    def _is_right(self, value: tuple[float, ...], actual: tuple[float, ...]) -> bool:
        # Of NaN the comparison is false, as it should be.
        return len(value) == len(actual) and math.dist(value, actual) <= self.tolerance_mm + _ROUNDING_MM


def _meant(claim: MetricClaim, truth: Iterable[Name]) -> Name | None:
    """Returns the one thing that a name stands for, or None where it is not there or cannot be told."""
    candidates = [name for name in truth if claim.name <= name]
    if claim.name in candidates:
        return claim.name
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
