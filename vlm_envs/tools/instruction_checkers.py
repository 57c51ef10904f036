"""The 19 checks of instruction following: each counts or compares something in a text and explains its finding.

Source: ARM-Thinker, section 3.1 and appendix E (19 textual validators after MM-IFEngine). The names are those
of ARM-Thinker's released tools, so that its checkpoints can call them; MM-IFEngine spells two of them
`..._metioned_...`, see `NAMES_IN_MM_IFENGINE`. `vlm_envs.tools.text_profiles` defines the differences between
the two definitions.

Arguments are pydantic models with limits on every text, list, and number. Their fields are named as in
ARM-Thinker's tools and MM-IFEngine's functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Annotated, Any, Generic, Literal, Self, TypeVar

from vlm_envs.errors import ConfigError
from vlm_envs.tools.text_profiles import (
    ARM,
    Profile,
    cleaned,
    numerals,
    paragraphs_of,
    profile_named,
    sentences_by_paragraph,
    sentences_of,
)
from vlm_envs.tools.tool_arguments import (
    WHOLE_NUMBER,
    AfterValidator,
    Arguments,
    BeforeValidator,
    Field,
    create_model,
    model_validator,
)
from vlm_envs.validation import did_you_mean

MAX_SHOWN_CHARS = 40
"""Maximum number of characters of a text or an argument that a reason quotes."""

MAX_SHOWN_ITEMS = 5
"""Maximum number of items that a reason lists."""


@dataclass(frozen=True)
class CheckOutcome:
    """The outcome of a check.

    Attributes:
        passed: Whether the text satisfies the check.
        reason: Explanation with the counted numbers; one sentence that quotes at most short pieces of the
            text, without tags.
    """

    passed: bool
    reason: str

    @property
    def tool_text(self) -> str:
        """The tool's reply: `"Check result: True"` or `"Check result: False"` (ARM-Thinker, appendix E)."""
        return f"Check result: {self.passed}"


def shown(text: str) -> str:
    """Quotes a text for a reason: shortened, on one line, without angle brackets."""
    short = text if len(text) <= MAX_SHOWN_CHARS else text[:MAX_SHOWN_CHARS] + "…"
    return (repr(short) if short.isprintable() else ascii(short)).replace("<", "‹").replace(">", "›")


def listed(items: Sequence[str]) -> str:
    """Lists items for a reason: the first ones, and the number of others."""
    rest = f" and {len(items) - MAX_SHOWN_ITEMS} more" if len(items) > MAX_SHOWN_ITEMS else ""
    return ", ".join(items[:MAX_SHOWN_ITEMS]) + rest


def range_text(lower: int, upper: int) -> str:
    """Formats a range for a reason: `"3"` or `"3 to 5"`."""
    return str(lower) if lower == upper else f"{lower} to {upper}"


MAX_COUNT = 1_000_000
"""Maximum bound of a range."""

MAX_SUBSTRING_CHARS = 1_000
MAX_ITEMS = 100
"""Maximum number of substrings, keywords, or ranges in one check."""

MAX_PRECISION = 100
"""Maximum number of decimals."""

MAX_NAME_CHARS = 64
"""Maximum length of a text's name in a tool call."""


def _as_tuple(value: Any) -> Any:
    """Converts a JSON array to a tuple, which a frozen value needs; returns anything else unchanged."""
    return tuple(_as_tuple(item) for item in value) if isinstance(value, list) else value


Count = Annotated[int, Field(ge=0, le=MAX_COUNT), WHOLE_NUMBER]
Substring = Annotated[str, Field(min_length=1, max_length=MAX_SUBSTRING_CHARS)]
Precision = Annotated[int, Field(ge=0, le=MAX_PRECISION), WHOLE_NUMBER]
Strings = Annotated[tuple[Substring, ...], Field(min_length=1, max_length=MAX_ITEMS), BeforeValidator(_as_tuple)]
Range = tuple[Count, Count]
Ranges = Annotated[tuple[Range, ...], Field(min_length=1, max_length=MAX_ITEMS), BeforeValidator(_as_tuple)]


def _in_order(bounds: Range) -> Range:
    """Rejects an empty range."""
    lower, upper = bounds
    if lower > upper:
        raise ValueError(f"the lower bound {lower} is above the upper bound {upper}; swap them")
    return bounds


def _all_in_order(ranges: tuple[Range, ...]) -> tuple[Range, ...]:
    return tuple(map(_in_order, ranges))


def _visible(text: str) -> str:
    """Rejects pure white space, which is stripped before any comparison."""
    if not text.strip():
        raise ValueError("white space alone cannot be looked for here; give letters or marks")
    return text


def _all_visible(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(_visible, texts))


class NoArguments(Arguments):
    """Arguments of a check that needs none."""


class RangeArguments(Arguments):
    """A range, inclusive."""

    lower_bound: Count = Field(description="Smallest number allowed.")
    upper_bound: Count = Field(description="Largest number allowed.")

    @model_validator(mode="after")
    def _bounds_in_order(self) -> Self:
        _in_order((self.lower_bound, self.upper_bound))
        return self


class RangesArguments(Arguments):
    """A range for each paragraph."""

    ranges: Annotated[Ranges, AfterValidator(_all_in_order)] = Field(
        description="One pair [smallest, largest] for each paragraph, in order."
    )


class ForbiddenArguments(Arguments):
    """A substring that must not occur; it may be white space."""

    substring: Substring = Field(description="The substring that must not be there.")


class ForbiddenListArguments(Arguments):
    """Substrings that must not occur."""

    substrings: Strings = Field(description="The substrings that must not be there.")


class EdgeArguments(Arguments):
    """A required beginning or ending."""

    substring: Annotated[Substring, AfterValidator(_visible)] = Field(
        description="The beginning or ending that is required."
    )


class KeywordArguments(Arguments):
    """Keywords and the range of their mentions, inclusive."""

    keywords: Annotated[Strings, AfterValidator(_all_visible)] = Field(description="The keywords to count.")
    lower_bound_times: Count = Field(description="Fewest mentions allowed.")
    upper_bound_times: Count = Field(description="Most mentions allowed.")

    @model_validator(mode="after")
    def _bounds_in_order(self) -> Self:
        _in_order((self.lower_bound_times, self.upper_bound_times))
        return self


class PrecisionArguments(Arguments):
    """Required number of decimals."""

    precision: Precision = Field(description="Digits required after the decimal mark.")


ArgumentsT = TypeVar("ArgumentsT", bound=Arguments)


MAX_TEXT_CHARS = 1_000_000
"""Longer texts fail every check without being read, which bounds the time."""


Find = Callable[[str, ArgumentsT, Profile], CheckOutcome]
"""The check itself: maps a text, arguments, and a profile to an outcome. Never raises for any text."""

Edge = Literal["begin", "end"]


@dataclass(frozen=True)
class Checker(Generic[ArgumentsT]):
    """A check with its name and arguments.

    Attributes:
        name: Its name as a tool.
        description: Description for a model.
        requirement: The sentence that requests it from a writer, with placeholders `range`, `ranges`,
            `quoted`, `precision`.
        arguments: Model of its arguments.
        find: The check itself.
    """

    name: str
    description: str
    requirement: str
    arguments: type[ArgumentsT]
    find: Find[ArgumentsT]

    def check(
        self, text: str, arguments: ArgumentsT | Mapping[str, Any], *, profile: str | Profile = ARM
    ) -> CheckOutcome:
        """Checks a text.

        Args:
            text: Any string.
            arguments: An instance of the model `arguments` or of a subclass, or its fields by name.
            profile: A profile, or `"arm"` or `"mm_ifengine"`.

        Returns:
            Whether the text satisfies the check, and why. Never raises for any text.

        Raises:
            ConfigError: If the profile does not exist.
            pydantic.ValidationError: If the fields are not valid for the model.
            EngineUnavailableError: If the check counts sentences and pysbd is not installed.
        """
        definition = profile_named(profile)
        if not isinstance(arguments, self.arguments):
            arguments = self.arguments.model_validate(arguments)
        if len(text) > MAX_TEXT_CHARS:
            return CheckOutcome(False, f"The text has {len(text)} characters, more than {MAX_TEXT_CHARS}; not read.")
        return self.find(text, arguments, definition)

    @cached_property
    def tool_arguments(self) -> type[ArgumentsT]:
        """Model of the tool's arguments: those of the check, and `response`, the name of the text to check."""
        name = Field(min_length=1, max_length=MAX_NAME_CHARS, description="Name of the text to check, e.g. text_0.")
        model = self.arguments
        return create_model(f"{model.__name__}OfText", __base__=model, response=(str, name))


def _count(what: str, count: int, lower: int, upper: int) -> CheckOutcome:
    """Checks that a count is in a range."""
    return CheckOutcome(lower <= count <= upper, f"{count} {what}; asked for {range_text(lower, upper)}.")


def _counts(what: str, counts: Sequence[int], ranges: Sequence[tuple[int, int]]) -> CheckOutcome:
    """Checks that every paragraph's count is in its range."""
    wrong = [
        str(number)
        for number, (count, (lower, upper)) in enumerate(zip(counts, ranges, strict=True), start=1)
        if not lower <= count <= upper
    ]
    found = f"{what} per paragraph: {listed([str(count) for count in counts]) or 'no paragraphs'}"
    asked = f"; asked for {listed([range_text(*bounds) for bounds in dict.fromkeys(ranges)])}" if counts else ""
    return CheckOutcome(not wrong, found + asked + (f"; not so in {listed(wrong)}." if wrong else "."))


def _all_but(wrong: Sequence[str], total: int, what: str) -> CheckOutcome:
    """Checks that no unit is wrong."""
    reason = f"{total - len(wrong)} of {total} {what}"
    return CheckOutcome(not wrong, reason + (f"; not {listed(wrong)}." if wrong else "."))


def _counted(what: str, units_of: Callable[[str, Profile], Sized]) -> Find[RangeArguments]:
    """Returns a check of the number of units of some kind."""

    def find(text: str, arguments: RangeArguments, profile: Profile) -> CheckOutcome:
        return _count(what, len(units_of(text, profile)), arguments.lower_bound, arguments.upper_bound)

    return find


def _each_paragraph_sentence_number(text: str, arguments: RangeArguments, profile: Profile) -> CheckOutcome:
    found = list(map(profile.units, paragraphs_of(text), sentences_by_paragraph(text)))
    names = " or ".join(dict.fromkeys(name for name, _ in found)) or "sentences"
    bounds = (arguments.lower_bound, arguments.upper_bound)
    return _counts(names, [len(units) for _, units in found], [bounds] * len(found))


def _each_paragraph_sentence_numbers(text: str, arguments: RangesArguments, profile: Profile) -> CheckOutcome:
    counts = [len(sentences) for sentences in sentences_by_paragraph(text)]
    if len(counts) != len(arguments.ranges):
        return CheckOutcome(False, f"{len(counts)} paragraphs; ranges are given for {len(arguments.ranges)}.")
    return _counts("sentences", counts, arguments.ranges)


def _each_paragraph_word_number(text: str, arguments: RangeArguments, profile: Profile) -> CheckOutcome:
    counts = [len(profile.words(paragraph)) for paragraph in paragraphs_of(text)]
    return _counts("words", counts, [(arguments.lower_bound, arguments.upper_bound)] * len(counts))


def _substrings_absent(text: str, substrings: Sequence[str], profile: Profile) -> CheckOutcome:
    searched = profile.folded(profile.searched(text))
    present = [shown(substring) for substring in substrings if profile.folded(substring) in searched]
    absent = f"{len(substrings) - len(present)} of {len(substrings)} forbidden substrings are absent"
    return CheckOutcome(not present, absent + (f"; {listed(present)} present." if present else "."))


def _has_edge(edge: Edge, unit: str, substring: str, profile: Profile) -> bool:
    """Returns whether a unit begins or ends with a substring, compared as the profile defines."""
    text, wanted = profile.edges(unit, substring)
    return text.startswith(wanted) if edge == "begin" else text.endswith(wanted)


def _each_edge(what: str, units_of: Callable[[str], Sequence[str]], edge: Edge) -> Find[EdgeArguments]:
    """Returns a check of the beginning or ending of every unit."""

    def find(text: str, arguments: EdgeArguments, profile: Profile) -> CheckOutcome:
        units, wanted = units_of(text), arguments.substring
        wrong = [str(number) for number, unit in enumerate(units, 1) if not _has_edge(edge, unit, wanted, profile)]
        return _all_but(wrong, len(units), f"{what} {edge} with {shown(wanted)}")

    return find


def _response_edge(edge: Edge, text: str, arguments: EdgeArguments, profile: Profile) -> CheckOutcome:
    found = text.lstrip()[:80] if edge == "begin" else text.rstrip()[-40:]
    return CheckOutcome(
        _has_edge(edge, text, arguments.substring, profile),
        f"The response {edge}s with {shown(found)}; asked for {shown(arguments.substring)}.",
    )


def _edge_checker(unit: str, edge: Edge) -> Checker[EdgeArguments]:
    """Returns a check of the beginning or ending of every sentence, every paragraph, or the whole text."""
    units: dict[str, tuple[str, str, Find[EdgeArguments]]] = {
        "each_sentence": ("every sentence", "Every sentence", _each_edge("sentences", sentences_of, edge)),
        "each_paragraph": ("every paragraph", "Every paragraph", _each_edge("paragraphs", paragraphs_of, edge)),
        "whole_response": ("the whole text", "The text", partial(_response_edge, edge)),
    }
    subject, asked, find = units[unit]
    return Checker(
        f"check_whether_{unit}_{edge}_with_certain_substring",
        f"Checks that {subject} {edge}s with a substring.",
        f"{asked} {edge}s with {{quoted}}.",
        EdgeArguments,
        find,
    )


def _mentions(text: str, arguments: KeywordArguments, profile: Profile) -> dict[str, int]:
    """Returns the number of mentions of each keyword in the cleaned text."""
    searched = cleaned(text)
    return {keyword: profile.count_keyword(searched, keyword) for keyword in arguments.keywords}


def _each_keyword_mentioned(text: str, arguments: KeywordArguments, profile: Profile) -> CheckOutcome:
    lower, upper = arguments.lower_bound_times, arguments.upper_bound_times
    counts = _mentions(text, arguments, profile)
    passed = all(lower <= count <= upper for count in counts.values())
    found = listed([f"{shown(keyword)} {count}" for keyword, count in counts.items()])
    return CheckOutcome(passed, f"Mentions: {found}; asked for {range_text(lower, upper)} of each.")


def _total_keywords_mentioned(text: str, arguments: KeywordArguments, profile: Profile) -> CheckOutcome:
    counts = _mentions(text, arguments, profile)
    total = sum(counts[keyword] for keyword in arguments.keywords)
    return _count("mentions of the keywords", total, arguments.lower_bound_times, arguments.upper_bound_times)


def _precision(what: str, pattern_of: Callable[[Profile], re.Pattern[str]]) -> Find[PrecisionArguments]:
    """Returns a check that all numbers of some kind have the required decimals."""

    def find(text: str, arguments: PrecisionArguments, profile: Profile) -> CheckOutcome:
        found, precision = numerals(pattern_of(profile), text), arguments.precision
        wrong = [shown(numeral.text) for numeral in found if numeral.num_decimals != precision]
        return _all_but(wrong, len(found), f"{what} have {precision} decimals")

    return find


def _no_arabic_number(text: str, arguments: NoArguments, profile: Profile) -> CheckOutcome:
    found = [shown(numeral.text) for numeral in numerals(profile.arabic_numbers, text)]
    return CheckOutcome(not found, f"{len(found)} arabic numbers" + (f": {listed(found)}." if found else "."))


_CHECKERS: tuple[Checker[Any], ...] = (
    Checker(
        "check_whether_response_paragraph_number_in_range",
        "Checks that the number of paragraphs is in a range, both bounds included. Blank lines divide paragraphs.",
        "The number of paragraphs is {range}.",
        RangeArguments,
        _counted("paragraphs", lambda text, profile: paragraphs_of(text)),
    ),
    Checker(
        "check_whether_response_sentence_number_in_range",
        "Checks that the number of sentences of the whole text is in a range, both bounds included.",
        "The number of sentences in the whole text is {range}.",
        RangeArguments,
        _counted("sentences", lambda text, profile: sentences_of(text)),
    ),
    Checker(
        "check_whether_each_paragraph_sentence_number_in_range",
        "Checks that every paragraph has a number of sentences in a range, both bounds included.",
        "The number of sentences in each paragraph is {range}.",
        RangeArguments,
        _each_paragraph_sentence_number,
    ),
    Checker(
        "check_whether_each_paragraph_sentence_number_in_range_list",
        "Checks that there are as many paragraphs as ranges, and each paragraph's number of sentences is in its own.",
        "The numbers of sentences in the paragraphs, from first to last, are: {ranges}.",
        RangesArguments,
        _each_paragraph_sentence_numbers,
    ),
    Checker(
        "check_whether_response_word_count_in_range",
        "Checks that the number of words of the whole text is in a range, both bounds included.",
        "The number of words in the whole text is {range}.",
        RangeArguments,
        _counted("words", lambda text, profile: profile.words(text)),
    ),
    Checker(
        "check_whether_each_paragraph_word_count_in_range",
        "Checks that every paragraph has a number of words in a range, both bounds included.",
        "The number of words in each paragraph is {range}.",
        RangeArguments,
        _each_paragraph_word_number,
    ),
    Checker(
        "check_whether_whole_response_not_contain_certain_substrings",
        "Checks that none of several substrings occurs in the text.",
        "None of these occurs anywhere: {quoted}.",
        ForbiddenListArguments,
        lambda text, arguments, profile: _substrings_absent(text, arguments.substrings, profile),
    ),
    Checker(
        "check_whether_whole_response_not_contain_certain_substring",
        "Checks that a substring does not occur in the text.",
        "This does not occur anywhere: {quoted}.",
        ForbiddenArguments,
        lambda text, arguments, profile: _substrings_absent(text, [arguments.substring], profile),
    ),
    _edge_checker("each_sentence", "begin"),
    _edge_checker("each_paragraph", "begin"),
    _edge_checker("each_paragraph", "end"),
    _edge_checker("each_sentence", "end"),
    _edge_checker("whole_response", "begin"),
    _edge_checker("whole_response", "end"),
    Checker(
        "check_whether_each_keyword_in_list_mentioned_in_range",
        "Checks that each keyword is mentioned, as a whole word in any case, a number of times in a range.",
        "The number of mentions of each of these words is {range}: {quoted}.",
        KeywordArguments,
        _each_keyword_mentioned,
    ),
    Checker(
        "check_whether_total_keyword_in_list_mentioned_in_range",
        "Checks that all keywords together are mentioned, as whole words in any case, a number of times in a range.",
        "The number of mentions of these words, taken together, is {range}: {quoted}.",
        KeywordArguments,
        _total_keywords_mentioned,
    ),
    Checker(
        "check_percentage_number_precision_in_response",
        "Checks that every percentage has exactly the required number of digits after the decimal point.",
        "Digits after the decimal point in every percentage: {precision}.",
        PrecisionArguments,
        _precision("percentages", lambda profile: profile.percentages),
    ),
    Checker(
        "check_number_precision_in_response",
        "Checks that every number has exactly the required number of digits after the decimal point.",
        "Digits after the decimal point in every number: {precision}.",
        PrecisionArguments,
        _precision("numbers", lambda profile: profile.numbers),
    ),
    Checker(
        "check_whether_has_no_arabic_number_in_response",
        "Checks that no number is written in digits; digits that are part of a word, as in 3D, are allowed.",
        "No number is written in digits.",
        NoArguments,
        _no_arabic_number,
    ),
)
CHECKERS: dict[str, Checker[Any]] = {checker.name: checker for checker in _CHECKERS}
"""The 19 checks, by name."""

NAMES_IN_MM_IFENGINE: dict[str, str] = {
    "check_whether_each_keyword_in_list_metioned_in_range": "check_whether_each_keyword_in_list_mentioned_in_range",
    "check_whether_total_keyword_in_list_metioned_in_range": "check_whether_total_keyword_in_list_mentioned_in_range",
}
"""Names with another spelling in MM-IFEngine's code and MM-IFEval's files, mapped to those in `CHECKERS`."""


def checker_named(name: str) -> Checker[Any]:
    """Returns the check with a name, in either spelling.

    Args:
        name: A key of `CHECKERS` or of `NAMES_IN_MM_IFENGINE`.

    Raises:
        ConfigError: If there is no such check.
    """
    checker = CHECKERS.get(NAMES_IN_MM_IFENGINE.get(name, name))
    if checker is None:
        hint = did_you_mean(name[:100], CHECKERS)
        raise ConfigError(f"There is no check {name[:100]!r}.{hint} Available: {', '.join(CHECKERS)}.")
    return checker


@dataclass(frozen=True)
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
            pydantic.ValidationError: If the fields are not valid for the check.
        """
        found = checker_named(checker)
        return cls(found.name, found.arguments.model_validate(arguments))

    def check(self, text: str, *, profile: str | Profile = ARM) -> CheckOutcome:
        """Checks a text. Never raises for any text."""
        return checker_named(self.checker).check(text, self.arguments, profile=profile)

    def requirement(self) -> str:
        """Returns the sentence that requests it from a writer."""
        return checker_named(self.checker).requirement.format(**_filled(self.arguments))


def _filled(arguments: Arguments) -> dict[str, str]:
    """Returns the values of a requirement's placeholders."""
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
