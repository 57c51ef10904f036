"""Peak memory is measured phase by phase on a GPU, and nowhere else."""

from __future__ import annotations

import torch

from training.loop.metrics import PeakMemory


def test_a_cpu_has_no_peaks():
    memory = PeakMemory(torch.device("cpu"))
    with memory.phase("rollout"):
        pass
    assert memory.metrics() == {}


def test_each_phase_has_its_own_peak(monkeypatch):
    most = [0]
    monkeypatch.setattr("torch.cuda.reset_peak_memory_stats", lambda device: most.append(0))
    monkeypatch.setattr("torch.cuda.max_memory_allocated", lambda device: most[-1])

    def take(num_bytes):
        most[-1] = max(most[-1], num_bytes)

    memory = PeakMemory(torch.device("cuda"))
    with memory.phase("rollout"):
        take(3 * 2**30)
    with memory.phase("update"):
        take(2**30)
    assert memory.metrics() == {"rollout_peak_gib": 3.0, "update_peak_gib": 1.0}
    assert memory.metrics() == {}
