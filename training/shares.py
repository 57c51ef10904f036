"""A mix of worlds, each in its share: exact in the long run, whole in every iteration.

    weights 45, 45, 10 of 32 groups ──> 14, 14, 4; then 15, 15, 2; … after five iterations 72, 72, 16 of 160

A grounded world of iVGR and its textual partner, the world of the same weight and arguments, always get the same number
of groups, so that every grounded group has a textual one with the same question. Beside other worlds, an odd group that
only partners are owed is played with the next iteration's: one group fewer now, one more then. Partners without
other worlds keep to the number asked for, and an odd group is the textual one's.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from training.config import WorldSpec, world_names
from vlm_envs.errors import ConfigError
from vlm_envs.vector import VectorWorld

_GROUNDED, _TEXTUAL = "ivgr_grounded", "ivgr_textual"
_MAX_PERIOD = 1_000
"""Iterations after which the count starts anew at the latest, which bounds the time."""


def counts(specs: Sequence[WorldSpec], total: int, iteration: int) -> list[int]:
    """Returns how many of an iteration's groups each world gets.

    Each world is owed its share of all iterations so far; the one that is owed most is served first.

    Args:
        specs: Worlds with their weights.
        total: Groups an iteration, at least 1; at least 2 where there are partners.
        iteration: Number of the iteration, from 0; the counts depend on nothing else.

    Returns:
        One count per world. They sum to `total`; with partners and other worlds to one more or less in an iteration,
        and never to more than one group less over all iterations so far (anew every `_MAX_PERIOD`).

    Raises:
        ConfigError: If one group is asked for, and partners need two.
    """
    units = _units(specs)
    if total < 2 and any(len(unit) > 1 for unit in units):
        raise ConfigError(
            f"A grounded world and its textual partner play each question together; got num_groups={total}. "
            "Take at least 2."
        )
    weights = [Fraction(str(spec.weight)) for spec in specs]
    owed_each = [weights[unit[0]] / sum(weights) * total for unit in units]
    owed = [Fraction(0)] * len(units)
    given, left = [0] * len(specs), 0
    for number in range(iteration % _MAX_PERIOD + 1):
        if number and not any(owed):
            return counts(specs, total, iteration % _MAX_PERIOD % number)  # All is paid: it begins anew.
        owed = [before + share for before, share in zip(owed, owed_each, strict=True)]
        given, left = _served(units, owed, left + total, len(specs))
    return given


def _served(units: Sequence[tuple[int, ...]], owed: list[Fraction], left: int, num: int) -> tuple[list[int], int]:
    """Gives an iteration's groups away; takes them off what is owed. Returns them and how many are left over."""
    given = [0] * num
    while left:
        most = max(range(len(units)), key=lambda number: owed[number])
        if len(units[most]) > left:
            singles = [number for number, unit in enumerate(units) if len(unit) == 1]
            if not singles:
                given[units[0][-1]] += 1
                return given, 0
            most = max(singles, key=lambda number: owed[number])
            if owed[most] <= -1:
                break
        owed[most] -= 1
        left -= len(units[most])
        for index in units[most]:
            given[index] += 1
    return given, left


class MixedWorlds:
    """The worlds of a mix in as many copies as an iteration plays.

    Args:
        specs: Worlds with their weights.
        total: Groups an iteration.
        copies: Episodes a group.
        split: Split of their levels.
    """

    def __init__(self, specs: Sequence[WorldSpec], total: int, *, copies: int = 1, split: str = "train") -> None:
        self._specs, self._total, self._copies, self._split = tuple(specs), total, copies, split
        self._names = world_names(specs)
        self._vectors: dict[tuple[int, int], VectorWorld] = {}
        self.of(0)  # What a world lacks is to be known before anything is learnt.

    def of(self, iteration: int) -> list[tuple[WorldSpec, str, VectorWorld, int]]:
        """Returns spec, name, `count * copies` worlds and count of each world that an iteration plays.

        A world whose share is no whole number is kept in each of the sizes it is played in.
        """
        played = enumerate(counts(self._specs, self._total, iteration))
        return [
            (self._specs[index], self._names[index], self._vector(index, count), count)
            for index, count in played
            if count
        ]

    def _vector(self, index: int, count: int) -> VectorWorld:
        if (index, count) not in self._vectors:
            made = self._specs[index].make_vector(count * self._copies, split=self._split)
            self._vectors[index, count] = made
        return self._vectors[index, count]

    def close(self) -> None:
        """Ends the worlds' workers."""
        for worlds in self._vectors.values():
            worlds.close()


def _units(specs: Sequence[WorldSpec]) -> list[tuple[int, ...]]:
    """Returns the worlds' places, those of partners together: grounded, then textual."""
    partner: dict[int, int] = {}
    for index, spec in enumerate(specs):
        if spec.prompt_format == _GROUNDED:
            textual = (
                other
                for other, each in enumerate(specs)
                if each.prompt_format == _TEXTUAL and other not in partner.values() and _asks(each) == _asks(spec)
            )
            if (found := next(textual, None)) is not None:
                partner[index] = found
    taken = set(partner.values())
    return [
        (index, partner[index]) if index in partner else (index,) for index in range(len(specs)) if index not in taken
    ]


def _asks(spec: WorldSpec) -> tuple[float, dict[str, object]]:
    """What partners have in common."""
    return spec.weight, {name: value for name, value in spec.kwargs.items() if name != "prompt_format"}
