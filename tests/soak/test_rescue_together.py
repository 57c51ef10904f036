"""Several processes whose gradients stay infinite save the run as it was before the iteration, each its part."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import torch

from tests.unit.training.engines.several_processes import launched
from tests.unit.training.loop.test_several_processes import options
from tests.unit.training.test_run import differing
from training.checkpoints.checkpoint_state import load_checkpoint_state


def told_by(processes: list[subprocess.Popen[str]]) -> list[str]:
    told = [process.communicate(timeout=240)[0] for process in processes]
    assert [process.returncode for process in processes] == [1] * len(processes), told
    return told


@pytest.mark.parametrize("engine", ["ddp", "fsdp2"])
def test_it_is_as_if_every_iteration_had_been_saved(tiny_directory: Path, tmp_path: Path, engine: str) -> None:
    settings = {"ppo.learning_rate": "1e30", "ppo.max_grad_norm": "1e30", "ppo.max_nonfinite_steps": "2"}
    told = {}
    for name, every in (("kept", "10"), ("saved", "1")):
        words = options(tiny_directory, tmp_path, **settings, name=name, num_iterations="9", checkpoint_every=every)
        told[name] = told_by(launched(2, *words, "--engine", engine, module="training"))
    done = json.loads((tmp_path / "saved" / "latest" / "progress.json").read_text())["iteration"]
    assert done > 0, "else nothing had to be kept"
    for main, other in told.values():
        assert f"NonFiniteGradientError in iteration {done}: saved as of {done} iterations." in main
        assert main.count("stopped: ") == 1
        assert "NonFiniteGradient" not in other and "stopped: " not in other
    states = [load_checkpoint_state(tmp_path / name / "latest") for name in told]
    assert differing(*states) == []
    for rank in range(2):
        own = [torch.load(tmp_path / name / "latest" / "processes" / f"{rank}.pt") for name in told]
        assert differing(*own) == []
