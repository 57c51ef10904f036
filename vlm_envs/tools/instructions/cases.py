"""Instructions with verifiable answers: constraints, a text that satisfies all, and one that breaks exactly one.

Texts come from a small grammar of our own. They are candidates for judging: the two differ by a small change, and
which constraint the change breaks is known. Both texts are checked before a case is returned, in its own profile.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from vlm_envs.errors import ConfigError, GenerationError, require_choice, require_positive
from vlm_envs.tools.instructions.constraints import Constraint
from vlm_envs.tools.instructions.drafts import Draft, NumberStyle, draw_draft, with_numbers
from vlm_envs.tools.instructions.plans import PLANS
from vlm_envs.tools.instructions.profiles import ARM, Profile, profile_named

MAX_CONSTRAINTS = 4
_MAX_DRAFTS = 100
_MAX_TRIES = 6
"""Tries to break each constraint of a draft."""

_MAX_CHANGES = 6
"""Changes in one try."""

_NUMBERS_SHARE = 0.3
"""How often a draft has whole numbers that no constraint is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionCase:
    """A task with constraints and two answers.

    Attributes:
        profile: Name of the definition in which the answers are right and wrong.
        task: What to write.
        constraints: What the text has to satisfy, one to `MAX_CONSTRAINTS`.
        satisfying: A text that satisfies all.
        violating: A text that satisfies all but one.
        violated: Index of that one.
    """

    profile: str
    task: str
    constraints: tuple[Constraint, ...]
    satisfying: str
    violating: str
    violated: int

    @property
    def flaw(self) -> str:
        """Name of the check that `violating` fails."""
        return self.constraints[self.violated].checker

    def instruction(self) -> str:
        """Returns the task and its numbered requirements."""
        return instruction_text(self.task, self.constraints)


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """Constraints, and a draft that satisfies all of them.

    Attributes:
        profile: The definition.
        draft: The text in the making.
        constraints: What it satisfies.
    """

    profile: Profile
    draft: Draft
    constraints: tuple[Constraint, ...]

    @property
    def task(self) -> str:
        """What to write, constraints not included."""
        return f"Describe {self.draft.topic.name} as it is seen in a picture."

    def failed(self, draft: Draft) -> list[int]:
        """Returns the indices of the constraints that a draft's text fails."""
        text = draft.text()
        return [
            index for index, item in enumerate(self.constraints) if not item.check(text, profile=self.profile).passed
        ]


def draw_case(
    rng: np.random.Generator,
    *,
    profile: str | Profile = ARM,
    num_constraints: int | None = None,
    checkers: Collection[str] = tuple(PLANS),
) -> InstructionCase:
    """Draws a case. Equal generators give equal cases.

    Args:
        rng: Where all randomness comes from.
        profile: Definition: a profile or its name.
        num_constraints: How many constraints, 1 to `MAX_CONSTRAINTS`; None draws it.
        checkers: Names of the checks to draw from; all by default.

    Returns:
        A case whose answers have been checked.

    Raises:
        ConfigError: If an argument is not usable.
        GenerationError: If so many of these checks do not go together, or no draft could be broken in one place only.
    """
    definition = profile_named(profile)
    names = sorted({require_choice("checkers", name, PLANS) for name in checkers})
    if not names:
        raise ConfigError("checkers must name at least one check; got none.")
    if num_constraints is not None and require_positive("num_constraints", num_constraints) > MAX_CONSTRAINTS:
        raise ConfigError(f"num_constraints must be at most {MAX_CONSTRAINTS}; got {num_constraints}.")
    for _ in range(_MAX_DRAFTS):
        wanted = num_constraints or int(rng.integers(1, MAX_CONSTRAINTS + 1))
        chosen = _draw_compatible(rng, names, wanted)
        if num_constraints is not None and len(chosen) < num_constraints:
            continue
        case = _try_case(rng, definition, chosen)
        if case is not None:
            return case
    raise GenerationError(
        f"No case of {num_constraints or 'some'} of {len(names)} checks was found in {_MAX_DRAFTS} drafts. "
        "Ask for fewer constraints or allow more checks."
    )


def instruction_text(task: str, constraints: tuple[Constraint, ...]) -> str:
    """Returns a task and its numbered requirements."""
    requirements = (f"{number}. {item.requirement()}" for number, item in enumerate(constraints, start=1))
    return "\n".join((task, "Requirements:", *requirements))


def draw_instruction(
    rng: np.random.Generator, profile: Profile, num_constraints: int, checkers: Collection[str] = tuple(PLANS)
) -> Instruction | None:
    """Draws constraints that go together, and a draft that satisfies them.

    Args:
        rng: Where all randomness comes from.
        profile: The definition.
        num_constraints: Most constraints; fewer where not so many of the checks go together.
        checkers: Names of the checks to draw from.

    Returns:
        The instruction; None if this draft does not satisfy what it was made for.
    """
    names = _draw_compatible(rng, sorted(checkers), num_constraints)
    return _instruction(rng, profile, names)


def draw_broken(rng: np.random.Generator, instruction: Instruction, violated: int) -> Draft | None:
    """Changes an instruction's draft until it fails one constraint and no other.

    Args:
        rng: Where all randomness comes from.
        instruction: The instruction.
        violated: Index of the constraint to fail.

    Returns:
        The changed draft; None if no try failed that constraint alone.
    """
    target = instruction.constraints[violated]
    for _ in range(_MAX_TRIES):
        changed, grows = instruction.draft, bool(rng.integers(2))
        for _ in range(_MAX_CHANGES):
            changed = PLANS[target.checker].disturb(rng, changed, target, grows)
            failed = instruction.failed(changed)
            if failed:
                break
        if failed == [violated]:
            return changed
    return None


def _instruction(rng: np.random.Generator, profile: Profile, names: list[str]) -> Instruction | None:
    """Returns a draft with constraints of given checks, or None if it fails one."""
    draft = draw_draft(rng)
    if not any("numbers" in PLANS[name].groups for name in names) and rng.random() < _NUMBERS_SHARE:
        draft = with_numbers(rng, draft, NumberStyle.WHOLE, 0)
    for name in names:
        draft = PLANS[name].prepare(rng, draft)
    constraints = tuple(PLANS[name].constraint(rng, draft, profile) for name in names)
    instruction = Instruction(profile=profile, draft=draft, constraints=constraints)
    return None if instruction.failed(draft) else instruction


def _try_case(rng: np.random.Generator, profile: Profile, names: list[str]) -> InstructionCase | None:
    """Returns a case of given checks, or None if this draft cannot be broken in one place only."""
    instruction = _instruction(rng, profile, names)
    if instruction is None:
        return None
    for index in rng.permutation(len(instruction.constraints)):
        violating = draw_broken(rng, instruction, int(index))
        if violating is not None:
            return InstructionCase(
                profile=profile.name,
                task=instruction.task,
                constraints=instruction.constraints,
                satisfying=instruction.draft.text(),
                violating=violating.text(),
                violated=int(index),
            )
    return None


def _draw_compatible(rng: np.random.Generator, names: list[str], num_wanted: int) -> list[str]:
    """Returns up to `num_wanted` checks that go together, in random order."""
    chosen: list[str] = []
    taken: set[str] = set()
    for index in rng.permutation(len(names)):
        name = names[int(index)]
        if len(chosen) < num_wanted and not PLANS[name].groups & taken:
            chosen.append(name)
            taken |= PLANS[name].groups
    return chosen
