"""Directories that `python -m benchmarks results --add` takes for no run."""

from __future__ import annotations

from benchmarks.__main__ import main


def test_a_checkpoint_and_recorded_episodes_are_refused(tiny_directory, tmp_path, capsys):
    (tmp_path / "config.json").write_text('{"name": "demo", "agent": "random"}')
    for other, told in ((tiny_directory, "is a checkpoint, not a run"), (tmp_path, "is no run of a recipe")):
        assert main(["results", "--add", str(other), "--results", str(tmp_path / "results")]) == 2
        assert f"error: {other} {told}" in capsys.readouterr().err
