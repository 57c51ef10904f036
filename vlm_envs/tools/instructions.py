"""Draws verifiable instructions: constraints, a text that satisfies all, and texts that break exactly one.

Texts come from a small grammar of our own. They are candidates for judging: they differ by a small change,
and the constraint that it breaks is known.

The nineteen checks of `vlm_envs.tools.instruction_checkers` verify them; `checker_tools` offers the checks as
tools. Needs the extra `tools` (pydantic, and pysbd to count sentences).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from numpy.random import Generator

from vlm_envs.tools.instruction_checkers import CHECKERS, Checker, Constraint
from vlm_envs.tools.instruction_texts import PLANS, Draft, draw_draft, with_numbers
from vlm_envs.tools.text_profiles import ARM, Profile, profile_named
from vlm_envs.tools.tool_memory import Memory
from vlm_envs.tools.tool_registry import Tool, ToolOutput

MAX_CONSTRAINTS = 4
_MAX_TRIES = 6
"""Attempts to break each constraint of a draft."""

_MAX_CHANGES = 6
"""Maximum number of changes per attempt."""

_NUMBERS_SHARE = 0.3
"""Probability that a draft without a constraint on numbers has integers."""


@dataclass(frozen=True, kw_only=True)
class Instruction:
    """Constraints, and a draft that satisfies them.

    Attributes:
        profile: The definition of the checks.
        draft: The text under construction.
        constraints: Constraints that it satisfies.
    """

    profile: Profile
    draft: Draft
    constraints: tuple[Constraint, ...]

    @property
    def text(self) -> str:
        """The task with its numbered requirements."""
        requirements = (f"{number}. {item.requirement()}" for number, item in enumerate(self.constraints, start=1))
        task = f"Describe {self.draft.topic.name} as it is seen in a picture."
        return "\n".join((task, "Requirements:", *requirements))

    def asking_anew(self, rng: Generator, draft: Draft, index: int) -> Instruction:
        """Returns an instruction for another draft, with one constraint redrawn so that the draft satisfies it."""
        name = self.constraints[index].checker
        drawn = Constraint.of(name, **PLANS[name].arguments(rng, draft, self.profile))
        return replace(
            self, draft=draft, constraints=(*self.constraints[:index], drawn, *self.constraints[index + 1 :])
        )

    def failed(self, draft: Draft) -> list[int]:
        """Returns the indices of the constraints that a draft's text violates."""
        text = draft.text()
        return [
            index for index, item in enumerate(self.constraints) if not item.check(text, profile=self.profile).passed
        ]


def draw_instruction(
    rng: Generator, profile: Profile, num_constraints: int, checks: Collection[str] = tuple(PLANS)
) -> Instruction | None:
    """Draws compatible constraints, and a draft that satisfies them; deterministic for a given generator.

    Args:
        rng: The only source of randomness.
        profile: The definition of the checks.
        num_constraints: Maximum number of constraints; fewer if not enough checks are compatible.
        checks: Names of the checks to draw from.

    Returns:
        The instruction; None if the draft does not satisfy it after all.
    """
    names = _draw_compatible(rng, num_constraints, checks)
    draft = draw_draft(rng)
    if not any("numbers" in PLANS[name].groups for name in names) and rng.random() < _NUMBERS_SHARE:
        draft = with_numbers(rng, draft, "whole", 0)
    for name in names:
        draft = PLANS[name].prepare(rng, draft)
    constraints = tuple(Constraint.of(name, **PLANS[name].arguments(rng, draft, profile)) for name in names)
    instruction = Instruction(profile=profile, draft=draft, constraints=constraints)
    return None if instruction.failed(draft) else instruction


def draw_broken(rng: Generator, instruction: Instruction, violated: int, *, moves_all: bool = False) -> Draft | None:
    """Changes an instruction's draft until it violates only one constraint.

    Args:
        rng: The only source of randomness.
        instruction: The instruction.
        violated: Index of the constraint to violate.
        moves_all: Whether a count of each paragraph changes in all of them, if the plan supports it.

    Returns:
        The changed draft; None if no attempt violated that constraint alone.
    """
    target = instruction.constraints[violated]
    plan = PLANS[target.checker]
    disturb = plan.disturb_all if moves_all and plan.disturb_all is not None else plan.disturb
    for _ in range(_MAX_TRIES):
        changed, grows = instruction.draft, bool(rng.integers(2))
        for _ in range(_MAX_CHANGES):
            changed = disturb(rng, changed, target, grows)
            failed = instruction.failed(changed)
            if failed:
                break
        if failed == [violated]:
            return changed
    return None


def _draw_compatible(rng: Generator, num_wanted: int, checks: Collection[str]) -> list[str]:
    """Returns up to `num_wanted` compatible checks in random order."""
    names = sorted(checks)
    chosen: list[str] = []
    taken: set[str] = set()
    for index in rng.permutation(len(names)):
        name = names[int(index)]
        if len(chosen) < num_wanted and taken.isdisjoint(PLANS[name].groups):
            chosen.append(name)
            taken.update(PLANS[name].groups)
    return chosen


def checker_tools(profile: str | Profile = ARM, checks: Collection[str] = tuple(CHECKERS)) -> tuple[Tool[Any], ...]:
    """Returns checks as tools, all 19 by default.

    Each takes the arguments of its check and `response`, the name of a stored text, and only replies whether
    the text passes (ARM-Thinker, appendix E).

    Args:
        profile: The definition of the checks.
        checks: Names of the checks.

    Raises:
        ConfigError: If the profile does not exist.
    """
    definition = profile_named(profile)

    def tool(checker: Checker[Any]) -> Tool[Any]:
        def run(arguments: Any, memory: Memory) -> ToolOutput:
            text = memory.texts_map[arguments.response]
            return ToolOutput(f"{checker.check(text, arguments, profile=definition).tool_text}.")

        return Tool(name=checker.name, description=checker.description, arguments=checker.tool_arguments, run=run)

    return tuple(tool(checker) for name, checker in CHECKERS.items() if name in checks)
