"""How much of the host's memory a process can have, as kernels write it down."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[train]'")

from training.engines.host_memory import host_memory

INSTALLED = {"proc/meminfo": "MemTotal:  64 kB\nMemFree:  1 kB\n"}
OWN_V2, OWN_V1 = {"proc/self/cgroup": "0::/job/step\n"}, {"proc/self/cgroup": "9:cpu,memory:/job\n1:name=x:/job\n"}
V1 = "sys/fs/cgroup/memory"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        (INSTALLED, 65_536),
        (INSTALLED | OWN_V2 | {"sys/fs/cgroup/job/step/memory.max": "max\n"}, 65_536),
        (INSTALLED | OWN_V2 | {"sys/fs/cgroup/job/step/memory.max": "9\n", "sys/fs/cgroup/job/memory.max": "7\n"}, 7),
        (INSTALLED | OWN_V2 | {"sys/fs/cgroup/memory.max": "8\n"}, 8),  # as a container sees its own
        (INSTALLED | OWN_V1 | {f"{V1}/job/memory.limit_in_bytes": "9223372036854771712\n"}, 65_536),
        (INSTALLED | OWN_V1 | {f"{V1}/memory.limit_in_bytes": "6\n"}, 6),
        (OWN_V2 | {"sys/fs/cgroup/job/step/memory.max": "5\n"}, 5),
    ],
)
def test_the_least_limit_counts(tmp_path, files, expected):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert host_memory(tmp_path) == expected
