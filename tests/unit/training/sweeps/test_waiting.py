"""Pools of runs end with whoever started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from training.sweeps.waiting import spawned_pool, wait_for

CHECKOUT = Path(__file__).parents[4]

PARENT = """
import os, time
from training.sweeps.waiting import spawned_pool

if __name__ == "__main__":
    with spawned_pool(1) as pool:
        print(pool.submit(os.getpid).result(), flush=True)
        pool.submit(time.sleep, 600).result()
"""


def fail():
    raise ValueError("one failed")


def test_an_error_ends_what_is_under_way_beside_it():
    started = time.monotonic()
    with pytest.raises(ValueError, match="one failed"), spawned_pool(2) as pool:
        wait_for([pool.submit(time.sleep, 150), pool.submit(fail), *(pool.submit(time.sleep, 150) for _ in range(3))])
    assert time.monotonic() - started < 120, "longer, if they were waited for"


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_run_ends_with_the_command_that_was_killed(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    paths = os.environ | {"PYTHONPATH": str(CHECKOUT)}
    with subprocess.Popen([sys.executable, str(script)], env=paths, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        assert is_running(worker)
        parent.send_signal(signal.SIGKILL)
    for _ in range(200):
        if not is_running(worker):
            return
        time.sleep(0.05)
    os.kill(worker, signal.SIGKILL)
    raise AssertionError("it went on with its run")
