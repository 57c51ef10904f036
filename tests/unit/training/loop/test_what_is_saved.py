"""A run that ends early says what there is to go on from: whatever ended it, and whichever of its checkpoints it is."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from training.checkpoints.files import is_in_cold_start
from training.errors import DiskFullError, PeerError
from training.loop.disk import full_disk_told
from training.loop.terminated import lost_peer_told, termination_message
from training.preflight.start import require_unused
from vlm_envs.records.json_lines import RunExistsError


def run_with(directory: Path, *files: str) -> Path:
    """Returns a run's directory with some files, which hold how many iterations were done."""
    for name in ("config.json", "metrics.jsonl", *files):
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('{"iteration": 3}')
    return directory


STANDS = [
    (("latest/state.pt", "latest/progress.json"), "The last checkpoint is as of 3 iterations. Go on with --resume."),
    ((".latest.old/state.pt", ".latest.old/progress.json"), "as of 3 iterations. Go on with --resume."),
    (("latest/state.pt",), "The last checkpoint is whole. Go on with --resume."),
    (("cold_start_state/state.pt",), "The last checkpoint is the cold start's. Go on with --resume."),
    ((".cold_start_state.old/state.pt",), "The last checkpoint is the cold start's. Go on with --resume."),
    ((".cold_start_state.tmp/state.pt",), "There is no checkpoint yet: start it again."),
    (("cold_start/config.json",), "run/cold_start."),
    ((), "There is no checkpoint yet: start it again."),
]


@pytest.mark.parametrize(("files", "told"), STANDS)
def test_a_process_that_dies_leaves_word_of_what_stands(tmp_path, monkeypatch, files, told):
    directory = run_with(tmp_path / "run", *files)
    there = sorted(directory.rglob("*"))
    assert termination_message(directory).endswith(told)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConnectionError) as caught, lost_peer_told(directory):
        raise RuntimeError("[gloo] Connection closed by peer")
    assert str(caught.value).endswith(told)
    assert sorted(directory.rglob("*")) == there, "another process may be writing"


@pytest.mark.parametrize(("files", "told"), STANDS)
def test_the_remedy_is_not_refused(tmp_path, files, told):
    """What is told to go on from is what a new run would not write over."""
    directory = run_with(tmp_path / "run", *files)
    if "--resume" not in told:
        return require_unused(directory)
    with pytest.raises(RunExistsError, match="--resume"):
        require_unused(directory)


def test_a_full_disk_in_a_cold_start_leaves_its_last_checkpoint(tmp_path):
    directory = run_with(tmp_path / "run", "cold_start_state/state.pt", "cold_start/config.json")
    with pytest.raises(DiskFullError) as caught, full_disk_told(directory):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert "The last checkpoint of its cold start is whole" in str(caught.value)
    assert str(caught.value).endswith("and go on with --resume.")
    assert is_in_cold_start(directory)


def test_a_full_disk_is_told_of_by_the_process_that_has_it(tmp_path):
    with pytest.raises(PeerError), full_disk_told(tmp_path):
        raise PeerError("The main process stopped: OSError: [Errno 28] No space left on device")
