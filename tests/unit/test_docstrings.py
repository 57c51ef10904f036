"""Docstrings of the API reference: what is Markdown becomes reStructuredText."""

from docs.docstrings import as_restructured_text


def test_a_markdown_table_becomes_a_list_table():
    lines = ["Terms:", "", "    | term | paid |", "    |---|---:|", "    | `format` | 0.5 |", "", "More."]
    assert as_restructured_text(lines) == [
        "Terms:",
        "",
        "",
        "    .. list-table::",
        "       :header-rows: 1",
        "",
        "       * - term",
        "         - paid",
        "       * - `format`",
        "         - 0.5",
        "",
        "",
        "More.",
    ]


def test_bars_are_escaped_outside_of_code():
    assert as_restructured_text(["|a| and `x | y` and |b|"]) == [r"\|a\| and `x | y` and \|b\|"]


def test_other_lines_stay_as_they_are():
    lines = ["Returns *one* `thing`.", "", "Args:", "    name: What it is called."]
    assert as_restructured_text(lines) == lines
