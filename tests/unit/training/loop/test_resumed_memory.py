"""A run that goes on holds nothing of the file that it has read its state from."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from training.__main__ import main
from training.loop.trainer import Trainer

MAPS = Path("/proc/self/maps")


@pytest.mark.soak
@pytest.mark.skipif(not MAPS.is_file(), reason="only Linux says what a process has mapped")
def test_a_state_that_was_read_is_let_go(tiny_directory, tmp_path, monkeypatch):
    words = ["frozenlake_tiny", "--output", str(tmp_path), "--name", "run", "--num-threads", "1"]
    few = ["--num-groups", "4", "--group-size", "2", "--num-eval-episodes", "0", "--sampling.max-new-tokens", "4"]
    assert main([*words, "--model", str(tiny_directory), *few, "--num-iterations", "1"]) == 0
    real, mapped = Trainer.resume, []

    def resume(self):
        real(self)
        gc.collect()
        mapped.extend(line for line in MAPS.read_text().splitlines() if "state.pt" in line)

    monkeypatch.setattr(Trainer, "resume", resume)
    assert main([*words, "--resume", "--num-iterations", "2"]) == 0
    assert mapped == []
