"""How the shares of a mix of worlds change while a run learns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Literal

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


_READ_BY = {"target_success": "success", "min_factor": "success", "unlock_success": "stepwise"}


def mix_contradictions(mix: MixConfig, num_worlds: int) -> Iterator[str]:
    """Yields settings of a mix that would do nothing."""
    if mix.schedule != "fixed" and num_worlds < 2:
        yield (
            f"--mix.schedule {mix.schedule} shares out a mix of worlds, and there is one. Add another "
            "(--worlds.1.env-id ID), which may be the same with other arguments or another band of its levels, or use "
            "--mix.schedule fixed."
        )
    for each in fields(mix):
        schedules = {"memory": ("success", "stepwise")}.get(each.name, (_READ_BY.get(each.name, mix.schedule),))
        if each.name != "schedule" and getattr(mix, each.name) != each.default and mix.schedule not in schedules:
            option = f"--mix.{each.name.replace('_', '-')}"
            yield (
                f"{option} {getattr(mix, each.name)} would do nothing with --mix.schedule {mix.schedule}. Use "
                f"--mix.schedule {' or '.join(schedules)}, or leave {option} out."
            )
