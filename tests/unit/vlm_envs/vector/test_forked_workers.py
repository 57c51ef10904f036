"""Forked workers inherit what their owner has open, and still see that it has closed its end or is gone."""

import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.unit.vlm_envs.corridor import CorridorWorld
from vlm_envs.vector.vector_world import VectorWorld
from vlm_envs.vector.workers import LocalWorker

CHECKOUT = Path(__file__).parents[4]
OWNER = """
import multiprocessing, time
from tests.unit.vlm_envs.corridor import CorridorWorld
from vlm_envs.vector.vector_world import VectorWorld
worlds = VectorWorld([CorridorWorld] * 3, workers="process", num_workers=3, start_method="fork")
print(*(worker.pid for worker in multiprocessing.active_children()), flush=True)
time.sleep(600)
"""


class NotingWorld(CorridorWorld):
    """Leaves a file when it is closed."""

    def __init__(self, left: Path) -> None:
        super().__init__()
        self.left = left

    def close(self) -> None:
        self.left.touch()
        super().close()


def test_each_closes_its_worlds_when_it_is_told_to(tmp_path: Path) -> None:
    left = [tmp_path / str(index) for index in range(3)]
    worlds = VectorWorld(
        [partial(NotingWorld, each) for each in left], workers="process", num_workers=3, start_method="fork"
    )
    worlds.close()
    assert all(each.is_file() for each in left), "none was killed after the time it has to stop"


def test_a_worker_that_could_not_be_started_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Any) -> None:
        raise OSError("no process can be started")

    monkeypatch.setattr("multiprocessing.process.BaseProcess.start", fail)
    worker = LocalWorker(env_fns={0: CorridorWorld}, kind="process", start_method="spawn")
    with pytest.raises(OSError, match="no process"):
        worker.start()
    worker.stop()


def test_a_thread_stops_although_a_process_was_forked_beside_it() -> None:
    thread = LocalWorker(env_fns={0: CorridorWorld}, kind="thread", start_method="fork")
    process = LocalWorker(env_fns={0: CorridorWorld}, kind="process", start_method="fork")
    for worker in (thread, process):
        worker.ready()
    carrier = thread._carrier
    thread.stop()
    assert not carrier.is_alive()
    process.stop()


class ExitingWorld(CorridorWorld):
    """Takes its worker along in a step."""

    def step(self, action: str) -> Any:
        raise SystemExit


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # on purpose
def test_a_thread_that_ends_is_seen_at_once_although_a_process_was_forked_beside_it() -> None:
    threads = VectorWorld([ExitingWorld], workers="thread", num_workers=1, step_timeout_s=60.0)
    forked = VectorWorld([CorridorWorld], workers="process", num_workers=1, start_method="fork")
    with threads, forked:
        threads.reset(seed=0)
        start = time.monotonic()
        threads.step(["x"])
        assert time.monotonic() - start < 30.0


@pytest.mark.soak
def test_pools_that_are_started_at_once_do_not_inherit_from_each_other() -> None:
    pools: list[VectorWorld] = []

    def made() -> None:
        pools.append(VectorWorld([CorridorWorld] * 3, workers="process", num_workers=3, start_method="fork"))

    for _ in range(3):
        threads = [threading.Thread(target=made) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    carriers = [worker._carrier for pool in pools for worker in pool._pool._workers]
    exits: list[int | None] = []
    for carrier in carriers:
        carrier.close = partial(lambda each: exits.append(each.exitcode), carrier)
    for pool in pools:
        pool.close()
    assert exits == [0] * 27, "none had to be killed"


def test_a_killed_owner_leaves_none_behind() -> None:
    environ = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True, env=environ) as owner:
        assert owner.stdout is not None
        workers = [int(pid) for pid in owner.stdout.readline().split()]
        assert len(workers) == 3
        owner.send_signal(signal.SIGKILL)
    until = time.monotonic() + 30
    while any(is_running(pid) for pid in workers) and time.monotonic() < until:
        time.sleep(0.05)
    left = [pid for pid in workers if is_running(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left


def is_running(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
