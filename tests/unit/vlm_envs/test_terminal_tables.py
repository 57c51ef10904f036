"""Tables fit the terminal they are printed in."""

import math

import pytest

from vlm_envs.terminal_tables import table, terminal_width, text_table, wrapped

ROWS = [("VLM/A-v0", "[tools]", "ready"), ("VLM/Longer-v0", "", "missing")]
NOTES = ["A short note.", "A note of many words that has to be continued on another line of the table."]


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_no_line_is_wider_than_the_terminal_and_no_word_is_lost(width):
    lines = table(ROWS, headings=("id", "extra", "status"), notes=NOTES, width=width)
    assert max(map(len, lines)) <= width
    cells = [*ROWS[0], *ROWS[1], "id", "extra", "status", *NOTES]
    assert sorted(" ".join(lines).split()) == sorted(" ".join(cells).split())


def test_notes_stand_beside_their_rows_where_there_is_room():
    assert table(ROWS, notes=NOTES, width=math.inf) == [
        "VLM/A-v0       [tools]  ready    A short note.",
        f"VLM/Longer-v0           missing  {NOTES[1]}",
    ]


def test_the_last_column_is_continued_below_itself():
    assert table([("name", "one two three")], width=16) == ["name  one two", "      three"]


def test_columns_that_do_not_fit_are_named_and_empty_ones_are_left_out():
    rows = [{"a": "1234567890", "b": "1234567890", "empty": "", "c": "1234567890"}]
    assert text_table(rows, width=30).splitlines()[-1] == "Wider terminals also show: c."
    assert text_table(rows, width=math.inf).split() == ["a", "b", "c", *["1234567890"] * 3]


def test_a_pipe_is_as_wide_as_what_is_printed(monkeypatch, capsys):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert terminal_width() == math.inf
    monkeypatch.setenv("COLUMNS", "72")
    assert terminal_width() == 72
    assert all(len(line) <= 72 for line in wrapped("word " * 40, indent="  "))


LABEL = "VLM/Sokoban-v0:prompt_example=False,prompt_format=grounding_worldmodeling,representation=structured"
LABELED = [
    {"world": LABEL, "agent": "PPO of stable-baselines3 (Sokoban)", "success": "0.531 (0.411 to 0.648)", **more}
    for more in ({"tokens": "1,234,567", "seconds": "12", "cost": ""}, {"tokens": "99", "seconds": "5", "cost": ""})
]


@pytest.mark.parametrize("width", [60, 80, 100])
def test_rows_of_a_wide_label_stand_below_it(width):
    shown = text_table(LABELED, width=width)
    assert max(map(len, shown.splitlines())) <= width
    assert "0.531 (0.411 to 0.648)" in shown
    assert "world: VLM/Sokoban-v0:prompt_example=False," in shown
    assert shown.count("world:") == 1, "rows of one world share its heading"


def test_columns_without_room_are_named():
    assert text_table(LABELED, width=55).splitlines()[-1] == "Wider terminals also show: tokens; seconds."


def test_a_wide_terminal_has_one_line_for_each_row():
    heading, first, second = text_table(LABELED, width=math.inf).splitlines()
    assert heading.split() == ["world", "agent", "success", "tokens", "seconds"]
    assert first.split()[0] == second.split()[0] == LABEL


def test_rows_of_distinct_names_keep_their_name_column():
    rows = [{"recipe": name, "trained": "0.5", "a heading of many words": "1", "b" * 30: "2"} for name in "xy"]
    lines = text_table(rows, width=40).splitlines()
    assert lines[0].split()[0] == "recipe" and lines[1].startswith("x")
    assert max(map(len, lines)) <= 40
