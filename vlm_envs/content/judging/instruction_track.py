"""The track `instruction_following`: texts that satisfy all of an instruction's constraints, or all but one.

The checkers themselves verify every text before it becomes a candidate. Candidates are then adjusted to
lengths drawn independently of which one is right, by adding or removing phrases that no check notices.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from vlm_envs.content.judging.judging_cases import Candidate, Case, Flaw, is_length_matched, shown_candidates
from vlm_envs.content.random_choice import pick
from vlm_envs.errors import ConfigError, GenerationError
from vlm_envs.tools.instruction_texts import COUNTED, PLANS, Draft, draw_sentence, padded
from vlm_envs.tools.instructions import MAX_CONSTRAINTS, Instruction, draw_broken, draw_instruction
from vlm_envs.tools.text_profiles import ARM, Profile, profile_named
from vlm_envs.validation import require_choice

Flawed = tuple[Draft, int | None]
"""A draft and the index of the constraint that it violates; None if it satisfies all."""

_MAX_TRIES = 200
_MAX_CHANGES = 24
_LENGTH_SPREAD = 0.03
"""Half-width of the range of candidate lengths, as a fraction of the length of the instruction's own draft."""

_LENGTH_TOLERANCE = 12
"""Maximum deviation from the drawn length, in characters; half a phrase."""


_MAX_COUNTERFACTUALS = 8
"""Attempts to find a requirement that only the other response of a pair satisfies."""

_REQUIREMENTS = re.compile(r"([1-4])-([1-4]):(\w+(?:\+\w+)*)(:counterfactual)?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Requirements:
    """Constraints on the requirements in instructions.

    Attributes:
        checks: Names of the checks to draw requirements from, in alphabetical order.
        number: Minimum and maximum number of requirements, 1 to 4; fewer if not enough are compatible.
        counterfactual: Whether either response of a pair could be right under another requirement. The
            requirement is drawn last, so that nothing else identifies the right response.

    Raises:
        ConfigError: If a check is unknown, the number is out of range, or `counterfactual` is combined with a
            check that does not count.
    """

    checks: tuple[str, ...] = tuple(sorted(PLANS))
    number: tuple[int, int] = (1, MAX_CONSTRAINTS)
    counterfactual: bool = False

    def __post_init__(self) -> None:
        if not self.checks:
            raise ConfigError("checks must name at least one check; leave it out for all.")
        for check in self.checks:
            require_choice("checks", check, PLANS)
        others = sorted({*self.checks} - COUNTED)
        if self.counterfactual and others:
            raise ConfigError(
                f"counterfactual needs checks that count: {', '.join(sorted(COUNTED))}. Remove {others[0]}."
            )
        low, high = self.number
        if not 1 <= low <= high <= MAX_CONSTRAINTS:
            raise ConfigError(f"num_requirements must be a range from 1 to {MAX_CONSTRAINTS}; got {low} to {high}.")
        object.__setattr__(self, "checks", tuple(sorted(set(self.checks))))

    def __str__(self) -> str:
        """Returns the requirements as part of an id; empty for the default."""
        low, high = self.number
        suffix = ":counterfactual" if self.counterfactual else ""
        return "" if self == Requirements() else f"{low}-{high}:{'+'.join(self.checks)}{suffix}"

    @classmethod
    def read(cls, text: str) -> Requirements | None:
        """Parses the result of `str`; None for any other text."""
        match = _REQUIREMENTS.fullmatch(text)
        if match is None:
            return None if text else cls()
        try:
            number = int(match[1]), int(match[2])
            return cls(checks=tuple(match[3].split("+")), number=number, counterfactual=match[4] is not None)
        except ConfigError:
            return None


def draw_instruction_case(
    rng: np.random.Generator,
    *,
    num_candidates: int,
    profile: str | Profile = ARM,
    requirements: Requirements | None = None,
    is_wanted: Callable[[str], bool] | None = None,
) -> Case | None:
    """Draws a case, its candidates in random order.

    Args:
        rng: The only source of randomness.
        num_candidates: 1, 2 or 4. A single one is right half the time.
        profile: The definition that decides whether a text satisfies a constraint.
        requirements: Constraints on the requirements; by default none.
        is_wanted: Decides by the request whether to make the case; for counterfactual pairs, by both texts,
            sorted. By default every case is made. Candidates are not written for rejected requests.

    Returns:
        The case, which is the same for the same generator whatever `is_wanted` accepts; None if it is
        rejected.

    Raises:
        GenerationError: If no case was found.
    """
    definition, requirements = profile_named(profile), requirements or Requirements()
    (fewest, most), asks_last = requirements.number, requirements.counterfactual
    for _ in range(_MAX_TRIES):
        instruction = draw_instruction(rng, definition, int(rng.integers(fewest, most + 1)), requirements.checks)
        if instruction is None:
            continue
        if not asks_last and is_wanted is not None and not is_wanted(instruction.text):
            return None
        drafts = _draw_drafts(rng, instruction, max(2, num_candidates), moves_all=asks_last)
        if drafts is None or not is_length_matched([draft.text() for draft, _ in drafts]):
            continue
        if asks_last:
            # The pair is accepted as a whole: accepting only one of its two requests would reveal which
            # response is right
            if is_wanted is not None and not is_wanted("\n\n".join(sorted(draft.text() for draft, _ in drafts))):
                return None
            asked = _either_way(rng, instruction, *drafts)
            if asked is None:
                continue
            instruction, drafts = asked
        candidates = [_candidate(instruction, draft, violated) for draft, violated in drafts]
        return Case(
            track="instruction_following",
            request=instruction.text,
            candidates=shown_candidates(rng, candidates, num_candidates),
            constraints=instruction.constraints,
        )
    raise GenerationError(f"No case with {num_candidates} candidates was found among {_MAX_TRIES} instructions.")


def _draw_drafts(
    rng: np.random.Generator, instruction: Instruction, num_drafts: int, *, moves_all: bool
) -> tuple[Flawed, ...] | None:
    """Returns a right draft and flawed ones with the violated constraints; None if the draft cannot be broken."""
    drafts: list[Flawed] = [(instruction.draft, None)]
    for _ in range(num_drafts - 1):
        violated = int(rng.integers(len(instruction.constraints)))
        broken = draw_broken(rng, instruction, violated, moves_all=moves_all)
        if broken is None:
            return None
        drafts.append((broken, violated))
    base = len(instruction.draft.text())
    fitted: list[Flawed] = []
    for draft, flaw in drafts:
        failed = [] if flaw is None else [flaw]
        if num_drafts > 2:
            draft = _rewritten(rng, instruction, draft, failed)
        wanted = round(base * float(rng.uniform(1 - _LENGTH_SPREAD, 1 + _LENGTH_SPREAD)))
        fitted.append((_fitted(rng, instruction, draft, wanted, failed), flaw))
    return tuple(fitted) if len({draft.text() for draft, _ in fitted}) == num_drafts else None


def _either_way(
    rng: np.random.Generator, instruction: Instruction, right: Flawed, flawed: Flawed
) -> tuple[Instruction, tuple[Flawed, Flawed]] | None:
    """Returns an instruction that one of two drafts satisfies and the other violates once, chosen at random.

    Returns:
        The instruction with its drafts, the right one first; None if no instruction was found that reverses
        the pair.
    """
    (draft, _), (broken, violated) = right, flawed
    assert violated is not None
    for _ in range(_MAX_COUNTERFACTUALS):
        other = instruction.asking_anew(rng, broken, violated)
        if not other.failed(broken) and other.failed(draft) == [violated]:
            break
    else:
        return None
    return (instruction, (right, flawed)) if rng.integers(2) else (other, ((broken, None), (draft, violated)))


def _candidate(instruction: Instruction, draft: Draft, violated: int | None) -> Candidate:
    text = draft.text()
    return Candidate(text=text, flaw=None if violated is None else _flaw(instruction, violated, text))


def _flaw(instruction: Instruction, violated: int, text: str) -> Flaw:
    constraint = instruction.constraints[violated]
    reason = constraint.check(text, profile=instruction.profile).reason
    return Flaw(kind=f"constraint_violated:{constraint.checker}", place=constraint.requirement(), truth=reason)


def _fitted(
    rng: np.random.Generator, instruction: Instruction, draft: Draft, num_chars: int, failed: list[int]
) -> Draft:
    """Returns a draft of approximately the given length that still violates the same constraints."""
    for _ in range(_MAX_CHANGES):
        missing = num_chars - len(draft.text())
        if abs(missing) <= _LENGTH_TOLERANCE:
            break
        row, column = pick(rng, draft.places)
        sentence = draft.paragraphs[row][column]
        if missing > 0:
            changed = padded(rng, draft.topic, sentence)
        else:
            changed = replace(sentence, fillers=sentence.fillers[:-1])
        proposal = draft.with_sentence(row, column, changed)
        if changed != sentence and instruction.failed(proposal) == failed:
            draft = proposal
    return draft


def _rewritten(rng: np.random.Generator, instruction: Instruction, draft: Draft, failed: list[int]) -> Draft:
    """Returns a draft with different sentences that violates the same constraints.

    Flawed drafts are small changes of the right one, so among four candidates, the right one would be the one
    that is similar to all others. Each candidate is therefore reworded separately.
    """
    for row, column in draft.places:
        sentence = draft.paragraphs[row][column]
        proposal = draft.with_sentence(row, column, replace(sentence, clause=draw_sentence(rng, draft.topic).clause))
        if instruction.failed(proposal) == failed:
            draft = proposal
    return draft
