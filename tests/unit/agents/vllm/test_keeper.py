"""What is kept leaves nothing in memory, however it and its owner end; the programs here map memory as vLLM's do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.vllm import keeper

# Two processes map a segment that nobody unlinks, for who would is killed with them
KEPT = """
import multiprocessing, os, sys, time
from multiprocessing import shared_memory
import multiprocessing.resource_tracker as tracker
tracker.register = lambda *_: None
def hold(name):
    held = shared_memory.SharedMemory(name)
    held.buf[0] = 1
    open(sys.argv[2], "w").write(f"{os.getpid()} {os.getppid()} {name}")
    time.sleep(600)
segment = shared_memory.SharedMemory(create=True, size=2**20)
child = multiprocessing.get_context("fork").Process(target=hold, args=(segment.name,))
child.start()
child.join()
"""
OWNER = """
import os, subprocess, sys, time
keeper, folder, code, told = sys.argv[1:]
command = [sys.executable, "-c", code, folder, told]
kept = subprocess.Popen([sys.executable, "-P", keeper, str(os.getpid()), folder, *command], start_new_session=True)
print(kept.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def owner(tmp_path):
    """An owner, its keeper's number, its folder, and what it keeps: two processes and their segment."""
    (tmp_path / "folder").mkdir()
    told, words = tmp_path / "told", [keeper.__file__, str(tmp_path / "folder"), KEPT, str(tmp_path / "told")]
    started = subprocess.Popen([sys.executable, "-c", OWNER, *words], stdout=subprocess.PIPE, text=True)
    number = int(started.stdout.readline())
    assert wait_until(lambda: told.exists() and len(told.read_text().split()) == 3)
    child, parent, name = told.read_text().split()
    yield started, number, tmp_path / "folder", (int(child), int(parent)), keeper.MEMORY / name
    for pid in (started.pid, number, int(child), int(parent)):
        if psutil.pid_exists(pid):
            os.kill(pid, signal.SIGKILL)
    started.wait()
    started.stdout.close()
    (keeper.MEMORY / name).unlink(missing_ok=True)


def wait_until(holds, timeout_s=20.0):
    until = time.monotonic() + timeout_s
    while not holds() and time.monotonic() < until:
        time.sleep(0.05)
    return bool(holds())


def is_over(pids):
    return not any(psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie" for pid in pids)


def test_a_killed_owner_takes_all_with_it(owner):
    started, number, folder, kept, segment = owner
    assert segment.exists() and not is_over(kept)
    os.kill(started.pid, signal.SIGKILL)
    started.wait()
    assert wait_until(lambda: is_over([*kept, number]))
    assert not segment.exists() and not folder.exists()


def test_an_owner_that_ends_it_keeps_its_folder(owner):
    started, number, folder, kept, segment = owner
    os.kill(number, signal.SIGTERM)
    assert wait_until(lambda: is_over([*kept, number]))
    assert not segment.exists() and folder.exists() and started.poll() is None


@pytest.mark.parametrize("which", [0, 1])
def test_where_one_of_its_processes_is_killed_nothing_is_left_of_the_other(which, owner):
    _, number, _, kept, segment = owner
    time.sleep(2 * keeper.LOOK_EVERY_S)  # who is dead cannot be asked what it had
    os.kill(kept[which], signal.SIGKILL)
    assert wait_until(lambda: is_over([*kept, number]))
    assert not segment.exists()


def test_memory_that_another_still_uses_is_left_to_it(owner):
    _, number, _, kept, segment = owner
    code = f"import mmap, time; f = open('{segment}', 'r+b'); m = mmap.mmap(f.fileno(), 0); print(1, flush=True)"
    with subprocess.Popen([sys.executable, "-c", f"{code}; time.sleep(600)"], stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        os.kill(number, signal.SIGTERM)
        assert wait_until(lambda: is_over([*kept, number]))
        assert segment.exists()
        other.kill()


def test_it_ends_as_what_it_runs_ended(tmp_path):
    command = [sys.executable, "-c", "raise SystemExit(3)"]
    kept = [sys.executable, "-P", keeper.__file__, str(os.getpid()), str(tmp_path), *command]
    assert subprocess.run(kept, check=False).returncode == 3
    assert Path(tmp_path).exists()
