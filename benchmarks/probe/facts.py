"""From true states, which are nested, to facts that a probe can be asked for: one value for each level."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

Fact: TypeAlias = str | int | float | bool | None

MAX_CLASSES = 32
"""Of a fact that is one of several; numbers with more values are measured as numbers, texts left out."""
RARE = 0.05
"""Share of levels below which an element of a set is too rare to be asked for, and above whose rest too common."""


def facts_of(states: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, list[Fact]]]:
    """Returns the facts of each entry of the states that differ from level to level, by what they are called.

    Lists that are equally long in all levels have a fact for each place; of others, and of several positions, the facts
    are which elements they have. Left out are entries that some levels lack, and texts of more than `MAX_CLASSES`
    sorts, such as ids.

    Args:
        states: `info["state"]` of levels.

    Returns:
        For each entry of the state, its facts, each with a value for each level.
    """
    found: dict[str, dict[str, list[Fact]]] = {}
    for entry in states[0]:
        facts = {
            name: values for name, values in _facts(entry, [state.get(entry) for state in states]) if _asks(values)
        }
        if facts:
            found[entry] = facts
    return found


def is_number(values: Sequence[Fact]) -> bool:
    """Returns whether a fact is measured as a number, rather than as one of several classes."""
    return len(set(values)) > MAX_CLASSES and all(isinstance(value, int | float) for value in values)


def _facts(name: str, values: Sequence[Any]) -> Iterator[tuple[str, list[Fact]]]:
    if all(isinstance(value, Mapping) for value in values):
        for key in values[0]:
            yield from _facts(f"{name}.{key}", [value.get(key) for value in values])
    elif all(isinstance(value, list | tuple) for value in values):
        lengths = {len(value) for value in values}
        are_positions = all(isinstance(each, list | tuple) for value in values for each in value)
        if len(lengths) == 1 and not (are_positions and max(lengths) > 1):
            for place in range(max(lengths)):
                yield from _facts(f"{name}.{place}", [value[place] for value in values])
        else:
            yield from _membership(name, values)
    elif all(isinstance(value, Fact) for value in values):
        yield name, list(values)


def _membership(name: str, values: Sequence[Sequence[Any]]) -> Iterator[tuple[str, list[Fact]]]:
    sets = [{repr(each) for each in value} for value in values]
    counts = Counter(each for elements in sets for each in elements)
    for element, count in sorted(counts.items()):
        if RARE <= count / len(sets) <= 1 - RARE:
            yield f"{name} has {element}", [element in elements for elements in sets]


def _asks(values: Sequence[Fact]) -> bool:
    return 1 < len(set(values)) <= MAX_CLASSES or is_number(values)
