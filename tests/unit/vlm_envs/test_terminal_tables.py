"""Tables fit the terminal they are printed in."""

import math

import pytest

from vlm_envs.terminal_tables import chosen_columns, table, terminal_width, wrapped

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


def test_columns_that_do_not_fit_are_named():
    rows = [{"a": "1234567890", "b": "1234567890", "empty": "", "c": "1234567890"}]
    assert chosen_columns(rows, num_needed=1, width=22) == (["a", "b"], ["c"])
    assert chosen_columns(rows, num_needed=1, width=math.inf) == (["a", "b", "c"], [])


def test_a_pipe_is_as_wide_as_what_is_printed(monkeypatch, capsys):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert terminal_width() == math.inf
    monkeypatch.setenv("COLUMNS", "72")
    assert terminal_width() == 72
    assert all(len(line) <= 72 for line in wrapped("word " * 40, indent="  "))
