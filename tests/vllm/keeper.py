"""Runs a command while its owner lives, and leaves nothing of either: `python keeper.py OWNER FOLDER COMMAND...`.

A process that is killed cannot clean up, so another does. Whatever ends the owner or the command, its processes are
killed, their files in the memory's file system are removed (vLLM's are of 160 MB and more), and so is the folder. It is
run by itself and imports nothing of this project, so that it takes no memory to speak of.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

MEMORY = Path("/dev/shm")
LOOK_EVERY_S = 1.0
"""Seconds between two looks at what memory is used: whoever is killed from outside cannot be asked any more."""
_PAUSE_S = 0.2
_PR_SET_PDEATHSIG = 1


def keep(owner: int, folder: Path, command: list[str]) -> int:
    """Runs a command until it ends, its owner does, or SIGTERM comes; returns its exit status.

    Args:
        owner: Number of the process that started this one.
        folder: Removed in the end, where its owner is gone.
        command: What is run.
    """
    is_ended = False

    def end(*_: object) -> None:
        nonlocal is_ended
        is_ended = True

    signal.signal(signal.SIGTERM, end)
    child = subprocess.Popen(command, start_new_session=True, preexec_fn=_end_with_parent)
    files: set[Path] = set()
    looks_at = time.monotonic()
    while child.poll() is None and os.getppid() == owner and not is_ended:
        if time.monotonic() >= looks_at:
            files |= memory_files(session(child.pid))
            looks_at = time.monotonic() + LOOK_EVERY_S
        time.sleep(_PAUSE_S)
    members = [*session(child.pid)]
    files |= memory_files(members)
    # Python's own trackers remove what the others had, once these are gone
    _kill(pid for pid in members if pid == child.pid or not is_tracker(pid))
    _wait_for_the_end_of([pid for pid in members if pid != child.pid])
    _kill(members)
    status = child.wait()
    for path in files - memory_files(processes()):
        path.unlink(missing_ok=True)
    if os.getppid() != owner:
        shutil.rmtree(folder, ignore_errors=True)
    return status


def processes() -> Iterator[int]:
    """Yields the numbers of all processes."""
    return (int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit())


def session(leader: int) -> Iterator[int]:
    """Yields the processes of a session, which is all that its leader started, and what these did."""
    for pid in processes():
        with contextlib.suppress(ProcessLookupError):
            if os.getsid(pid) == leader:
                yield pid


def is_tracker(pid: int) -> bool:
    """Returns whether a process is a `multiprocessing.resource_tracker`, which outlives those whose memory it knows."""
    with contextlib.suppress(OSError):
        return b"from multiprocessing.resource_tracker import main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def memory_files(pids: Iterable[int]) -> set[Path]:
    """Returns the files right in the memory's file system that processes have mapped; those of others are not seen."""
    found: set[Path] = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines():
                path = Path(line.partition("/")[1] + line.partition("/")[2])
                if path.parent == MEMORY and not path.name.endswith("(deleted)"):
                    found.add(path)
    return found


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _wait_for_the_end_of(pids: Iterable[int], limit_s: float = 10.0) -> None:
    """Waits for processes that were killed, whose memory is mapped until they are gone."""
    until = time.monotonic() + limit_s
    while any(lives(pid) for pid in pids) and time.monotonic() < until:
        time.sleep(0.05)


def lives(pid: int) -> bool:
    """Returns whether a process is more than a number that nobody has asked for yet."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] != "Z"
    return False


def _end_with_parent() -> None:
    """Has Linux, where vLLM runs, ask this process to end when its parent is gone, however that ended (prctl(2))."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(keep(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]))
