"""The measurement of the code base counts what it says."""

from __future__ import annotations

from tests.weight import counts, num_tokens

SOURCE = '''"""A module."""

LIMIT = 3  # a comment
"""What LIMIT is."""


def double(number):
    """Return twice a number."""
    return "2" * number
'''


def test_tokens_exclude_comments_docstrings_and_layout():
    # LIMIT = 3; def double ( number ) : ; return "2" * number
    assert num_tokens(SOURCE) == 3 + 6 + 4
    assert num_tokens(SOURCE.replace("a comment", "another, longer comment")) == 13
    assert num_tokens(SOURCE.replace('return "2"', 'return "2" + "3"')) == 15


def test_files_lines_and_repeated_basenames_are_counted(tmp_path):
    for number in range(5):
        folder = tmp_path / "judges" / f"part{number}"
        folder.mkdir(parents=True)
        (folder / "world.py").write_text(SOURCE)
        (folder / "__init__.py").write_text("")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "world.py").write_text(SOURCE)
    measured = counts(tmp_path)
    assert (measured["files"], measured["lines"], measured["tokens"]) == (10, 5 * 9, 5 * 13)
    assert measured["packages"]["judges"]["files"] == 10
    assert measured["basenames more than four times"] == [["world.py", 5]]
