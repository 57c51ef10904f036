"""True statements earn their due however they are worded, and false ones do not."""

import pytest

from judges.state_text.exact_judge import ExactJudge
from tests.unit.judges.state_text.statements import (
    FALSE_GRID,
    FALSE_METRIC,
    LAKE,
    MOST_FALSE_GRID,
    MOST_FALSE_METRIC,
    TRUE_GRID,
    TRUE_METRIC,
    WRONG_COUNTS,
)


def value(world, state, text):
    return ExactJudge(world, "natural_language").score(text, state).value


@pytest.mark.parametrize(("world", "state", "text", "least"), [*TRUE_GRID, *TRUE_METRIC])
def test_a_true_statement_earns_at_least_its_due(world, state, text, least):
    assert value(world, state, text) >= least - 1e-9


@pytest.mark.parametrize(("world", "state", "text"), FALSE_GRID)
def test_a_false_statement_about_a_grid_earns_little(world, state, text):
    assert value(world, state, text) <= MOST_FALSE_GRID


@pytest.mark.parametrize(("world", "state", "text"), FALSE_METRIC)
def test_a_false_statement_about_a_home_or_a_table_earns_little(world, state, text):
    assert value(world, state, text) <= MOST_FALSE_METRIC + 1e-9


@pytest.mark.parametrize("sentence", WRONG_COUNTS)
def test_a_wrong_or_unclear_number_of_holes_adds_nothing(sentence):
    side = "below and to the right of the player."
    goal = f"The goal is {side}"
    assert value("FrozenLake", LAKE, f"{goal} {sentence.format(side)}") <= value("FrozenLake", LAKE, goal)
    assert value("FrozenLake", LAKE, sentence.format(side)) == 0.0
