"""Mixtures of worlds: how their weights change during a run, and how many groups per iteration each world plays.

    weights 45, 45, 10 and 32 groups ──> 14, 14, 4; then 15, 15, 2; … after five iterations 72, 72, 16 of 160

A grounded world of iVGR and its textual partner, the same world with the same weight and arguments, always get the same
number of groups, so that every grounded group has a textual one with the same question. Two steps keep that exact:

1. all partner pairs together get their due number of groups, rounded; the other worlds get the rest;
2. groups of each kind are assigned one at a time, so that no world is ever a full group ahead or behind (`_Dealer`).

An odd number of groups cannot always be met: partners that are due 2.25 pairs of 5 groups must sometimes play three.
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
"""Schedules of the shares."""


@dataclass(frozen=True, kw_only=True)
class MixConfig:
    """Schedule of the shares of a mixture's worlds.

    The success of each world is estimated during training with an exponential moving average.

    Attributes:
        schedule: `fixed` uses the worlds' weights. `success` multiplies each weight by a factor that is 1 at a
            success of `target_success` and decreases linearly to `min_factor` at 0 and 1, because mastered and
            unreachable worlds teach little. `stepwise` starts with the first world and adds the next one whenever the
            last one added reaches `unlock_success`: a curriculum of worlds, or of level ranges of one world, in the
            given order.
        target_success: Success, in (0, 1), with the largest factor (`success`).
        min_factor: Minimum factor, so that no world is forgotten (`success`).
        unlock_success: Success at which the next world is added (`stepwise`).
        memory: Decay of the moving average per iteration, in [0, 1).
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
        """Returns the factor of a world's weight under `success`; 1 without an estimate.

        Args:
            success: The estimate, in [0, 1].
        """
        if success is None:
            return 1.0
        target = self.target_success
        distance = (target - success) / target if success < target else (success - target) / (1 - target)
        return 1.0 - (1.0 - self.min_factor) * distance


class Shares:
    """Number of groups of each world in each iteration.

    After every iteration, the total of each world is within 2 groups of its exact share: within 1 if there are no
    partners, and within 1.5 for partners. The total over worlds is as requested or, with partners and an odd number,
    one group more.

    Args:
        specs: Worlds with their weights.
        total: Groups per iteration, at least 1; at least 2 with partners.

    Attributes:
        units: Indices of the worlds, with partners together.
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
        # Number of iterations after which every world has exactly its share, so that counts repeat
        self._period = math.lcm(*((total * weight / sum(weights)).denominator for weight in weights))

    def of(self, iteration: int) -> tuple[int, ...]:
        """Returns the number of groups of each world, a function of the iteration only.

        The sum is the requested number; with partners and an odd number, it may differ by one.
        """
        index = iteration % self._period
        while len(self._counts) <= index:
            self._counts.append(self._next())
        return self._counts[index]

    def _next(self) -> tuple[int, ...]:
        num_iterations = len(self._counts) + 1
        num_pairs = math.floor(num_iterations * self._due_pairs + Fraction(1, 2))
        num_left = num_iterations * self._total - 2 * num_pairs
        counts = [0] * self._num_worlds
        for kind, dealer, num in (
            (self._pairs, self._pair_dealer, num_pairs - self._pair_dealer.num_dealt),
            # May be negative by one if pairs were rounded up; groups already played cannot be taken back
            (self._singles, self._single_dealer, max(0, num_left - self._single_dealer.num_dealt)),
        ):
            for unit, count in zip(kind, dealer.deal(num), strict=True):
                for index in unit:
                    counts[index] = count
        return tuple(counts)


class _Dealer:
    """Assigns groups one by one, so that each of n units is always within 1 - 1 / (2n - 2) of its weighted share.

    Source: Tijdeman, "The chairman assignment problem" (1980): among units that are due at least 1 / (2n - 2), choose
    the one that would exceed its bound first.
    """

    def __init__(self, weights: Sequence[Fraction]) -> None:
        self._weights, self._sum = weights, sum(weights, Fraction(0))
        self._dealt = [0] * len(weights)
        self._parts = max(1, 2 * len(weights) - 2)

    @property
    def num_dealt(self) -> int:
        """Number of groups assigned so far."""
        return sum(self._dealt)

    def deal(self, num: int) -> list[int]:
        """Returns the number of groups of each unit among the next `num`."""
        before = list(self._dealt)
        for number in range(self.num_dealt + 1, self.num_dealt + num + 1):
            self._dealt[self._chosen(number)] += 1
        return [after - earlier for after, earlier in zip(self._dealt, before, strict=True)]

    def _chosen(self, number: int) -> int:
        """Returns the unit of a group, numbered from 1."""
        waiting = (
            index
            for index, weight in enumerate(self._weights)
            if (number * weight - self._dealt[index] * self._sum) * self._parts >= self._sum
        )
        return min(waiting, key=lambda index: ((self._dealt[index] + 1) * self._parts - 1) / self._weights[index])


def require_room_for_partners(
    specs: Sequence[WorldSpec], *, num_groups: int, cold_start_batch_size: int | None
) -> None:
    """Checks that iterations and cold start batches have room for both partners of a question.

    Args:
        specs: The worlds.
        num_groups: Groups per iteration.
        cold_start_batch_size: Batch size of the cold start; None without an expert.

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
            f"{grounded} and its textual partner {textual} play each question together, but {flag} {number} has room "
            f"for only one of them. Use {flag} 2 or more."
        )


def _units(specs: Sequence[WorldSpec]) -> list[tuple[int, ...]]:
    """Returns indices of worlds with partners together, the grounded partner first."""
    formats = [spec.prompt_format for spec in specs]
    partner: dict[int, int] = {}
    for pair in _compared_strategies():
        references, others = ([index for index, format_ in enumerate(formats) if format_ == of] for of in pair)
        asked = {index: _asks(specs[index]) for index in (*references, *others)} if references and others else {}
        for index in references:
            alike = (
                format_ for format_ in others if format_ not in partner.values() and asked[format_] == asked[index]
            )
            if index not in partner and (found := next(alike, None)) is not None:
                partner[index] = found
    taken = set(partner.values())
    return [
        (index, partner[index]) if index in partner else (index,) for index in range(len(specs)) if index not in taken
    ]


def _compared_strategies() -> list[tuple[str, str]]:
    """Returns pairs of strategies whose episodes a reward compares, the reference first."""
    rewards = [(reward.compares_with, reward.strategies or ()) for reward in EPISODE_REWARDS.values()]
    return [(first, second) for first, strategies in rewards if first for second in strategies if second != first]


def _asks(spec: WorldSpec) -> tuple[Any, ...]:
    """Returns the properties that partners share: weight, pools, world, and arguments except the strategy.

    Omitted arguments count as their defaults.
    """
    arguments = arguments_of(spec.env_id, spec.kwargs)
    unset = [name for name, value in arguments.items() if value is None]
    if unset:  # arguments that the world chooses itself, such as the number of turns of a strategy
        with spec.made() as world:
            arguments |= {name: getattr(world, name, None) for name in unset}
    shared = {name: value for name, value in arguments.items() if name != "prompt_format"}
    return spec.weight, spec.pool, spec.cold_start_pool, gym.spec(registered_name(spec.env_id)).entry_point, shared
