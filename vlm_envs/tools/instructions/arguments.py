"""Arguments of the checks: pydantic models with bounds on every text, list and number.

The names of the fields are those of ARM-Thinker's tools and of MM-IFEngine's functions.
"""

from __future__ import annotations

from typing import Annotated, Any, Self, TypeVar

from vlm_envs.tools.arguments import (
    WHOLE_NUMBER,
    Arguments,
    BeforeValidator,
    Field,
    create_model,
    field_validator,
    model_validator,
)

MAX_COUNT = 1_000_000
"""Largest bound of a range."""

MAX_SUBSTRING_CHARS = 1_000
MAX_ITEMS = 100
"""Most substrings, keywords or ranges of one check."""

MAX_PRECISION = 100
"""Most digits after the decimal mark."""

MAX_NAME_CHARS = 64
"""Longest name of a text in a tool call."""


def _as_tuple(value: Any) -> Any:
    """Returns a JSON array as a tuple, which a frozen value needs; anything else as it is."""
    return tuple(_as_tuple(item) for item in value) if isinstance(value, list) else value


Count = Annotated[int, Field(ge=0, le=MAX_COUNT), WHOLE_NUMBER]
Substring = Annotated[str, Field(min_length=1, max_length=MAX_SUBSTRING_CHARS)]
Precision = Annotated[int, Field(ge=0, le=MAX_PRECISION), WHOLE_NUMBER]
Strings = Annotated[tuple[Substring, ...], Field(min_length=1, max_length=MAX_ITEMS), BeforeValidator(_as_tuple)]
Range = tuple[Count, Count]
Ranges = Annotated[tuple[Range, ...], Field(min_length=1, max_length=MAX_ITEMS), BeforeValidator(_as_tuple)]


def _check_range(lower: int, upper: int) -> None:
    """Refuses a range that no count lies in.

    Raises:
        ValueError: If the lower bound is above the upper one.
    """
    if lower > upper:
        raise ValueError(f"the lower bound {lower} is above the upper bound {upper}; swap them")


def _check_visible(text: str) -> None:
    """Refuses white space alone, which is stripped before anything is compared.

    Raises:
        ValueError: If there is nothing else.
    """
    if not text.strip():
        raise ValueError("white space alone cannot be looked for here; give letters or marks")


class NoArguments(Arguments):
    """A check that needs no arguments."""


class RangeArguments(Arguments):
    """A range, both bounds included."""

    lower_bound: Count = Field(description="Smallest number allowed.")
    upper_bound: Count = Field(description="Largest number allowed.")

    @model_validator(mode="after")
    def _bounds_in_order(self) -> Self:
        _check_range(self.lower_bound, self.upper_bound)
        return self


class RangesArguments(Arguments):
    """A range for each paragraph."""

    ranges: Ranges = Field(description="One pair [smallest, largest] for each paragraph, in order.")

    @field_validator("ranges")
    @classmethod
    def _bounds_in_order(cls, ranges: Ranges) -> Ranges:
        for lower, upper in ranges:
            _check_range(lower, upper)
        return ranges


class ForbiddenArguments(Arguments):
    """A substring that must not be there; it may be white space."""

    substring: Substring = Field(description="The substring that must not be there.")


class ForbiddenListArguments(Arguments):
    """Substrings of which none may be there."""

    substrings: Strings = Field(description="The substrings that must not be there.")


class EdgeArguments(Arguments):
    """A beginning or an ending."""

    substring: Substring = Field(description="The beginning or ending that is required.")

    @field_validator("substring")
    @classmethod
    def _substring_visible(cls, substring: str) -> str:
        _check_visible(substring)
        return substring


class KeywordArguments(Arguments):
    """Keywords and how often they are mentioned, both bounds included."""

    keywords: Strings = Field(description="The keywords to count.")
    lower_bound_times: Count = Field(description="Fewest mentions allowed.")
    upper_bound_times: Count = Field(description="Most mentions allowed.")

    @field_validator("keywords")
    @classmethod
    def _keywords_visible(cls, keywords: Strings) -> Strings:
        for keyword in keywords:
            _check_visible(keyword)
        return keywords

    @model_validator(mode="after")
    def _bounds_in_order(self) -> Self:
        _check_range(self.lower_bound_times, self.upper_bound_times)
        return self


class PrecisionArguments(Arguments):
    """Digits after the decimal mark."""

    precision: Precision = Field(description="Digits required after the decimal mark.")


ArgumentsT = TypeVar("ArgumentsT", bound=Arguments)


def with_text_name(arguments: type[ArgumentsT]) -> type[ArgumentsT]:
    """Returns a model of the same arguments and `response`, the name of the text to check, as tools take it."""
    name = Field(min_length=1, max_length=MAX_NAME_CHARS, description="Name of the text to check, e.g. text_0.")
    return create_model(f"{arguments.__name__}OfText", __base__=arguments, response=(str, name))
