"""Which code a run was made by."""

from __future__ import annotations

import subprocess

import pytest

from training.loop.provenance import circumstances, commit_of


def git(folder, *words):
    named = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    return subprocess.run(
        ["git", *named, *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def test_a_commit_is_marked_where_code_differs_from_it_and_not_where_results_do(tmp_path):
    assert commit_of(tmp_path) == "unknown"
    for name in ("training/code.py", "docs/ablations.md"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("1\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    commit = git(tmp_path, "rev-parse", "--short=12", "HEAD")
    assert commit_of(tmp_path / "training") == commit
    (tmp_path / "docs" / "ablations.md").write_text("2\n")
    assert commit_of(tmp_path / "training") == commit
    (tmp_path / "training" / "code.py").write_text("2\n")
    assert commit_of(tmp_path / "training") == f"{commit}-dirty"


@pytest.mark.parametrize(
    ("started", "told"),
    [
        ("checkout/benchmarks/__main__.py", "python -m benchmarks claims --seeds 1"),
        ("checkout/training/__main__.py", "python -m training claims --seeds 1"),
        ("examples/loop.py", "python examples/loop.py claims --seeds 1"),
    ],
)
def test_the_command_is_the_one_that_was_given(started, told, monkeypatch):
    monkeypatch.setattr("sys.argv", [started, "claims", "--seeds", "1"])
    assert circumstances()["command"] == told
