"""A run that ends early says what there is to go on from: whatever ended it, and whichever of its checkpoints it is."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from training.checkpoints.checkpoint_files import is_in_cold_start
from training.errors import DiskFullError, PeerError
from training.loop.interrupts import full_disk_told, lost_peer_told, termination_message
from training.preflight import require_unused
from vlm_envs.records.json_lines import RunExistsError

CHECKOUT = Path(__file__).parents[4]


def run_with(directory: Path, *files: str) -> Path:
    """Returns a run's directory with some files, which hold how many iterations were done."""
    for name in ("config.json", "metrics.jsonl", *files):
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('{"iteration": 3}')
    return directory


STANDS = [
    (("latest/state.pt", "latest/progress.json"), "The last checkpoint is as of 3 iterations. Resume with --resume."),
    ((".latest.old/state.pt", ".latest.old/progress.json"), "as of 3 iterations. Resume with --resume."),
    (("latest/state.pt",), "The last checkpoint is complete. Resume with --resume."),
    (("cold_start_state/state.pt",), "The last checkpoint is the cold start's. Resume with --resume."),
    ((".cold_start_state.old/state.pt",), "The last checkpoint is the cold start's. Resume with --resume."),
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
    assert "The last checkpoint of its cold start is complete" in str(caught.value)
    assert str(caught.value).endswith("then resume with --resume.")
    assert is_in_cold_start(directory)


def test_a_full_disk_is_told_of_by_the_process_that_has_it(tmp_path):
    with pytest.raises(PeerError), full_disk_told(tmp_path):
        raise PeerError("The main process stopped: OSError: [Errno 28] No space left on device")


STUCK = """
import ctypes, sys
from pathlib import Path
from training.loop.interrupts import termination_told
libc, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
with termination_told(Path(sys.argv[1])):
    libc.pthread_mutex_lock(mutex)
    print("waiting", flush=True)
    libc.pthread_mutex_lock(mutex)
"""
"""What waits for ever for what nobody will let go of, and never comes back to the interpreter, whatever the signal."""


@pytest.mark.skipif(sys.platform != "linux", reason="a mutex of zeros is one that is free on Linux")
def test_sigterm_ends_a_process_that_waits_for_one_that_is_no_more_and_says_what_stands(tmp_path):
    directory = run_with(tmp_path / "run", "latest/state.pt", "latest/progress.json")
    command = [sys.executable, "-c", STUCK, str(directory)]
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "waiting\n"
            process.terminate()
            told = process.communicate(timeout=100)[1]
        finally:
            process.kill()
    assert process.returncode == 128 + signal.SIGTERM
    assert told.splitlines()[-1].endswith("The last checkpoint is as of 3 iterations. Resume with --resume.")
