"""The language of docstrings, comments, messages, and help texts. See `tests/language.py`."""

import sys
from pathlib import Path

import pytest

from tests.language import ALLOWED, CHECKOUT, findings

ALLOWANCE = {
    "vlm_envs": 0,
    "agents": 0,
    "judges": 0,
    "training": 0,
    "benchmarks": 0,
    "docs": 0,
    "examples": 1,
    "tests": 1382,
}
"""Findings that are left in each package. A number only goes down; the goal is zero."""


def files_of(package: str) -> list[Path]:
    return sorted((CHECKOUT / package).rglob("*.py"))


@pytest.mark.parametrize("package", ALLOWANCE)
def test_no_package_has_more_findings_than_its_allowance(package):
    found = [finding for path in files_of(package) for finding in findings(path)]
    listing = "\n".join(map(str, found))
    assert len(found) <= ALLOWANCE[package], f"{len(found)} findings:\n{listing}"


def test_every_allowed_finding_has_a_reason_and_a_file():
    assert all(reason and (CHECKOUT / path).is_file() for (path, _), reason in ALLOWED.items())


def lint(tmp_path, monkeypatch, source):
    monkeypatch.setattr("tests.language.CHECKOUT", tmp_path)
    path = tmp_path / "sample.py"
    path.write_text(source, encoding="utf-8")
    return [(finding.line, finding.name) for finding in findings(path)]


def test_docstrings_comments_messages_and_help_texts_are_checked(tmp_path, monkeypatch):
    source = '''"""Begins anew."""
x = 1  # as of now
raise ValueError(f"{x} of the behaviour")
parser.add_argument("x", help="A colour.")
for each in ():
    """Returns it.

    Args:
        name: What it is called.
    """
'''
    assert lint(tmp_path, monkeypatch, source) == [
        (1, "archaic word"),
        (2, "as of"),
        (3, "British spelling"),
        (4, "British spelling"),
        (5, "loop variable"),
        (9, "relative clause without an antecedent"),
    ]


def test_code_quotations_data_and_questions_are_not_checked(tmp_path, monkeypatch):
    source = '''"""Sets `colour` to "grey". What is it? Such as `anew`."""
QUESTION = "What colour is behind the picture?"
'''
    assert lint(tmp_path, monkeypatch, source) == []


if __name__ == "__main__":  # python -m tests.test_language vlm_envs/qa: lists what is left
    for name in sys.argv[1:]:
        for finding in (finding for path in files_of(name) for finding in findings(path)):
            print(finding)
