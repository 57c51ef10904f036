"""A constraint: a check with its arguments, and the sentence that asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vlm_envs.tools.arguments import Arguments
from vlm_envs.tools.instructions.arguments import (
    EdgeArguments,
    ForbiddenArguments,
    ForbiddenListArguments,
    KeywordArguments,
    PrecisionArguments,
    RangeArguments,
    RangesArguments,
)
from vlm_envs.tools.instructions.checkers import checker_named
from vlm_envs.tools.instructions.profiles import ARM, Profile
from vlm_envs.tools.instructions.results import CheckOutcome


@dataclass(frozen=True, slots=True)
class Constraint:
    """A check with its arguments: an immutable, hashable value.

    Attributes:
        checker: The check's name.
        arguments: Its arguments.
    """

    checker: str
    arguments: Arguments

    @classmethod
    def of(cls, checker: str, **arguments: Any) -> Constraint:
        """Returns a constraint from a check's name, in either spelling, and the fields of its arguments.

        Raises:
            ConfigError: If there is no such check.
            pydantic.ValidationError: If the fields are not the check's.
        """
        found = checker_named(checker)
        return cls(found.name, found.arguments.model_validate(arguments))

    def check(self, text: str, *, profile: str | Profile = ARM) -> CheckOutcome:
        """Checks a text. Never raises for any text."""
        return checker_named(self.checker).check(text, self.arguments, profile=profile)

    def requirement(self) -> str:
        """Returns the sentence that asks a writer for it."""
        return checker_named(self.checker).requirement.format(**_filled(self.arguments))


def _filled(arguments: Arguments) -> dict[str, str]:
    """Returns what stands in the blanks of a requirement."""
    match arguments:
        case RangeArguments():
            return {"range": _between(arguments.lower_bound, arguments.upper_bound)}
        case RangesArguments():
            return {"ranges": ", ".join(_between(lower, upper) for lower, upper in arguments.ranges)}
        case ForbiddenArguments() | EdgeArguments():
            return {"quoted": _quotation(arguments.substring)}
        case ForbiddenListArguments():
            return {"quoted": ", ".join(map(_quotation, arguments.substrings))}
        case KeywordArguments():
            keywords = ", ".join(map(_quotation, arguments.keywords))
            return {"quoted": keywords, "range": _between(arguments.lower_bound_times, arguments.upper_bound_times)}
        case PrecisionArguments():
            return {"precision": str(arguments.precision)}
        case _:
            return {}


def _between(lower: int, upper: int) -> str:
    return f"exactly {lower}" if lower == upper else f"{lower} to {upper}"


def _quotation(text: str) -> str:
    return f"“{text}”"
