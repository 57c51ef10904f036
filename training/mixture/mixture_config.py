"""Mixtures of worlds: how their weights change during a run, and how many groups per iteration each world plays.

    weights 45, 45, 10 of 32 groups ──> 14, 14, 4; then 15, 15, 2; … after five iterations 72, 72, 16 of 160

A grounded world of iVGR and its textual partner, the same world with the same weight and arguments, always get the same
number of groups, so that every grounded group has a textual one with the same question. Two steps keep that exact:

1. all pairs of partners together get the whole number nearest to what they are due, the other worlds what is left;
2. the groups of either kind are dealt one at a time, so that no world is ever a group ahead or behind (`_Dealer`).

An odd number of groups cannot always be kept: partners that are due 2.25 pairs of 5 groups must play three at times.
Such an iteration has one group more, and a later one has one group fewer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import gymnasium as gym

from judges.episode_rewards.reward_registry import EPISODE_REWARDS
from training.config.world_spec import WorldSpec
from vlm_envs.errors import ConfigError
from vlm_envs.registration import arguments_of, registered_name
from vlm_envs.validation import require_between, require_choice

SCHEDULES = ("fixed", "success", "stepwise")
"""How shares may change."""


@dataclass(frozen=True, kw_only=True)
class MixConfig:
    """What the shares of a mix's worlds go by, besides their weights.

    Each world's success is estimated as it is trained on: `memory` of what was known, the rest of the last iteration.

    Attributes:
        schedule: `fixed` plays worlds by their weights alone. `success` multiplies each weight by a factor that is 1
            where the world's success is `target_success`, and falls in a straight line to `min_factor` where it is 0
            or 1: what is mastered and what is out of reach teaches little. `stepwise` begins with the first world of
            the mix and adds the next one each time the last one added has come to `unlock_success`: a curriculum of
            worlds, or of bands of one world's levels, in the order in which they are given.
        target_success: Success, between 0 and 1, at which a world is played most (`success`).
        min_factor: Least factor, so that no world is forgotten (`success`).
        unlock_success: Success from which the next world is added (`stepwise`).
        memory: Share of a world's estimate that an iteration leaves as it was, from 0 to below 1.
    """

    schedule: Literal["fixed", "success", "stepwise"] = "fixed"
    target_success: float = 0.5
    min_factor: float = 0.1
    unlock_success: float = 0.8
    memory: float = 0.8

    def __post_init__(self) -> None:
        require_choice("--mix.schedule", self.schedule, SCHEDULES)
        require_between(self, 0, 1, "target_success", includes=(False, False))
        require_between(self, 0, 1, "min_factor", "unlock_success", includes=(False, True))
        require_between(self, 0, 1, "memory", includes=(True, False))

    def factor(self, success: float | None) -> float:
        """Returns what a world's weight is multiplied by under `success`; 1 where nothing is known yet.

        Args:
            success: The estimate, from 0 to 1.
        """
        if success is None:
            return 1.0
        target = self.target_success
        distance = (target - success) / target if success < target else (success - target) / (1 - target)
        return 1.0 - (1.0 - self.min_factor) * distance


class Shares:
    """How many groups each world plays in each iteration.

    After every iteration, what a world has played in all is within 2 groups of its exact share: within 1 where nobody
    has a partner, and within 1.5 for partners. Together the worlds have played the number asked for or, with partners
    and an odd number, one group more.

    Args:
        specs: Worlds with their weights.
        total: Groups an iteration, at least 1; at least 2 where there are partners.

    Attributes:
        units: The worlds' places, those of partners together.
    """

    def __init__(self, specs: Sequence[WorldSpec], total: int) -> None:
        self.units = units = _units(specs)
        assert total >= (2 if any(len(unit) > 1 for unit in units) else 1), "see `require_room_for_partners`"
        self._total, self._num_worlds = total, len(specs)
        self._pairs, self._singles = ([unit for unit in units if len(unit) == size] for size in (2, 1))
        weights = [Fraction(str(spec.weight)) for spec in specs]
        of_pairs, of_singles = ([weights[unit[0]] for unit in kind] for kind in (self._pairs, self._singles))
        self._due_pairs = total * sum(of_pairs, Fraction(0)) / sum(weights)
        self._pair_dealer, self._single_dealer = _Dealer(of_pairs), _Dealer(of_singles)
        self._counts: list[tuple[int, ...]] = []
        # Iterations after which everybody has exactly their share, so that it begins anew
        self._period = math.lcm(*((total * weight / sum(weights)).denominator for weight in weights))

    def of(self, iteration: int) -> tuple[int, ...]:
        """Returns how many groups of an iteration each world plays; they depend on nothing else.

        They sum to the number asked for; with partners, if it is odd, at times to one more or one fewer.
        """
        place = iteration % self._period
        while len(self._counts) <= place:
            self._counts.append(self._next())
        return self._counts[place]

    def _next(self) -> tuple[int, ...]:
        num_iterations = len(self._counts) + 1
        num_pairs = math.floor(num_iterations * self._due_pairs + Fraction(1, 2))
        num_left = num_iterations * self._total - 2 * num_pairs
        counts = [0] * self._num_worlds
        for kind, dealer, num in (
            (self._pairs, self._pair_dealer, num_pairs - self._pair_dealer.num_dealt),
            # It may fall by one, where pairs were rounded up; what was played stays played
            (self._singles, self._single_dealer, max(0, num_left - self._single_dealer.num_dealt)),
        ):
            for unit, count in zip(kind, dealer.deal(num), strict=True):
                for index in unit:
                    counts[index] = count
        return tuple(counts)


class _Dealer:
    """Deals out groups one by one, so that after each all n have their share by weight within 1 - 1 / (2n - 2).

    Source: Tijdeman, "The chairman assignment problem" (1980): among those who have 1 / (2n - 2) coming to them, the
    one whose bound would be passed first.
    """

    def __init__(self, weights: Sequence[Fraction]) -> None:
        self._weights, self._sum = weights, sum(weights, Fraction(0))
        self._dealt = [0] * len(weights)
        self._parts = max(1, 2 * len(weights) - 2)

    @property
    def num_dealt(self) -> int:
        """Groups dealt so far."""
        return sum(self._dealt)

    def deal(self, num: int) -> list[int]:
        """Returns how many of the next `num` groups each gets."""
        before = list(self._dealt)
        for number in range(self.num_dealt + 1, self.num_dealt + num + 1):
            self._dealt[self._chosen(number)] += 1
        return [after - earlier for after, earlier in zip(self._dealt, before, strict=True)]

    def _chosen(self, number: int) -> int:
        """Returns who gets the group of this number, from 1."""
        waiting = (
            index
            for index, weight in enumerate(self._weights)
            if (number * weight - self._dealt[index] * self._sum) * self._parts >= self._sum
        )
        return min(waiting, key=lambda index: ((self._dealt[index] + 1) * self._parts - 1) / self._weights[index])


def require_room_for_partners(
    specs: Sequence[WorldSpec], *, num_groups: int, cold_start_batch_size: int | None
) -> None:
    """Refuses iterations and batches of one group where partners play each question together.

    A cold start without an expert has no batch size.

    Raises:
        ConfigError: If partners do not fit; the message names the option.
    """
    batches = (("--num-groups", num_groups), ("--cold-start.batch-size", cold_start_batch_size))
    too_small = [(flag, number) for flag, number in batches if number is not None and number < 2]
    if not too_small:
        return
    pair = next((unit for unit in _units(specs) if len(unit) > 1), None)
    if pair is not None:
        flag, number = too_small[0]
        grounded, textual = (f"--worlds.{index} ({specs[index].env_id})" for index in pair)
        raise ConfigError(
            f"{grounded} and its textual partner {textual} play each question together, and {flag} {number} has room "
            f"for one of them. Use {flag} 2 or more."
        )


def _units(specs: Sequence[WorldSpec]) -> list[tuple[int, ...]]:
    """Returns the worlds' places, those of partners together; first what is compared with, as iVGR's grounded one."""
    formats = [spec.prompt_format for spec in specs]
    partner: dict[int, int] = {}
    for pair in _compared_strategies():
        references, others = ([index for index, each in enumerate(formats) if each == of] for of in pair)
        asked = {index: _asks(specs[index]) for index in (*references, *others)} if references and others else {}
        for index in references:
            alike = (each for each in others if each not in partner.values() and asked[each] == asked[index])
            if index not in partner and (found := next(alike, None)) is not None:
                partner[index] = found
    taken = set(partner.values())
    return [
        (index, partner[index]) if index in partner else (index,) for index in range(len(specs)) if index not in taken
    ]


def _compared_strategies() -> list[tuple[str, str]]:
    """Returns the strategies whose episodes some reward compares: what is compared with, then the other."""
    rewards = [(each.compares_with, each.strategies or ()) for each in EPISODE_REWARDS.values()]
    return [(first, second) for first, strategies in rewards if first for second in strategies if second != first]


def _asks(spec: WorldSpec) -> tuple[Any, ...]:
    """Returns what partners have in common: weight, pools, world and its arguments but the strategy.

    Arguments that are left out count as their defaults.
    """
    arguments = arguments_of(spec.env_id, spec.kwargs)
    unset = [name for name, value in arguments.items() if value is None]
    if unset:  # what a world chooses by itself, such as the number of turns that go with a strategy
        with spec.made() as world:
            arguments |= {name: getattr(world, name, None) for name in unset}
    shared = {name: value for name, value in arguments.items() if name != "prompt_format"}
    return spec.weight, spec.pool, spec.cold_start_pool, gym.spec(registered_name(spec.env_id)).entry_point, shared
