"""A board's tables fit the terminal: what names rows is folded, and columns without room are named."""

import math

import pytest

from benchmarks.models.text_table import fitted_markdown, text_table

LABEL = "VLM/Sokoban-v0:prompt_example=False,prompt_format=grounding_worldmodeling,representation=structured"
ROWS = [
    {"world": LABEL, "agent": "PPO of stable-baselines3 (Sokoban)", "success": "0.531 (0.411 to 0.648)", **more}
    for more in ({"tokens": "1,234,567", "seconds": "12", "cost": ""}, {"tokens": "99", "seconds": "5", "cost": ""})
]


@pytest.mark.parametrize("width", [60, 80, 100])
def test_no_line_is_wider_than_the_terminal(width):
    shown = text_table(ROWS, width=width)
    assert max(map(len, shown.splitlines())) <= width
    assert "0.531 (0.411 to 0.648)" in shown
    assert "world: VLM/Sokoban-v0:prompt_example=False," in shown
    assert shown.count("world:") == 1, "rows of one world share its heading"


def test_columns_without_room_are_named():
    assert text_table(ROWS, width=55).splitlines()[-1] == "Wider terminals also show: tokens; seconds."


def test_a_wide_terminal_has_one_line_for_each_row():
    heading, first, second = text_table(ROWS, width=math.inf).splitlines()
    assert heading.split() == ["world", "agent", "success", "tokens", "seconds"]
    assert first.split()[0] == second.split()[0] == LABEL


def test_rows_of_distinct_names_keep_their_name_column():
    rows = [{"recipe": name, "trained": "0.5", "a heading of many words": "1", "b" * 30: "2"} for name in "xy"]
    lines = text_table(rows, width=40).splitlines()
    assert lines[0].split()[0] == "recipe" and lines[2].startswith("x")
    assert max(map(len, lines)) <= 40


def test_labels_are_not_broken_inside_a_name_or_a_value():
    labels = ["Adapted/doorkey:max_turns=3", "Adapted/MiniGrid-Empty-5x5-v0"]
    rows = [{"world": label, **dict.fromkeys(("success", "cost"), "0.531 (0.411 to 0.648)")} for label in labels]
    lines = text_table(rows, width=60).splitlines()
    parts = ["Adapted/doorkey:", "max_turns=3", "Adapted/", "MiniGrid-Empty-5x5-v0"]
    assert [line.split()[0] for line in lines[1:5]] == parts


def test_markdown_that_fits_stays_markdown():
    table = ["| recipe | n | n |", "| --- | --- | --- |", "| `a` | **1** | 2 |"]
    assert fitted_markdown(table, width=math.inf) == table
    assert fitted_markdown(table, width=18) == [
        "recipe  n (1)",
        "a       1",
        "",
        "Wider terminals",
        "also show: n (2).",
    ]
