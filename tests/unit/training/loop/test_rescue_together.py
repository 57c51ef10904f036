"""What several processes save of a run that fails: all of it where it is gradients that end them all, else nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.unit.training.update.test_micro_batches import OneOfSeveral
from training.__main__ import main
from training.errors import ExplodingGradientError, MemoryExhaustedError, NonFiniteGradientError, PeerError
from training.loop.interrupts import Rescue

GRADIENTS = [NonFiniteGradientError("norm nan"), ExplodingGradientError("norm 1e9")]


class StubRun:
    """A run of one weight, as one of two processes has it."""

    def __init__(self, directory: Path, rank: int) -> None:
        self.directory, self.engine = directory, OneOfSeveral(rank, 2)
        self.iteration, self.saved_iteration = 3, 0
        self.weight, self.saved = torch.tensor([3.0]), list[tuple[int, float]]()
        (directory / "latest").mkdir()
        (directory / "latest" / "progress.json").write_text(json.dumps({"iteration": 0}))

    def state_dict(self) -> dict[str, Any]:
        return {"iteration": self.iteration, "weight": self.weight}

    def load_state_dict(self, state: dict[str, Any], *, acts: bool = True) -> None:
        self.iteration = state["iteration"]
        self.weight.copy_(state["weight"])

    def save(self) -> None:
        self.saved_iteration = self.iteration
        self.saved.append((self.iteration, float(self.weight)))


def failed(run: StubRun, error: Exception) -> None:
    """Lets an iteration of a run take a part of its step and fail."""
    rescue = Rescue(run)
    with pytest.raises(type(error)):
        try:
            with rescue.iteration():
                run.weight += 100
                run.iteration += 1
                raise error
        except Exception as caught:
            rescue.save(caught)
            raise


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("error", GRADIENTS, ids=lambda error: type(error).__name__)
def test_gradients_end_all_processes_which_save_what_was_before(tmp_path, capsys, error, rank):
    run = StubRun(tmp_path, rank)
    failed(run, error)
    assert run.saved == [(3, 3.0)]
    told = f"{type(error).__name__} in iteration 3: saved as of 3 iterations. Resume with --resume.\n"
    assert capsys.readouterr().err == (told if rank == 0 else "")


@pytest.mark.parametrize("error", [MemoryExhaustedError("here"), RuntimeError("a world"), OSError(28, "full")])
def test_what_ends_one_process_saves_nothing_for_the_others_are_elsewhere(tmp_path, capsys, error):
    run = StubRun(tmp_path, 1)
    failed(run, error)
    assert run.saved == []
    assert "in iteration 3: the last checkpoint is as of 0 iterations." in capsys.readouterr().err


def test_what_the_main_process_tells_of_is_not_told_twice(tmp_path, capsys):
    run = StubRun(tmp_path, 1)
    failed(run, PeerError("The main process stopped: KeyError"))
    assert run.saved == [] and capsys.readouterr().err == ""


def test_nothing_is_kept_that_the_last_checkpoint_has(tmp_path, capsys):
    run = StubRun(tmp_path, 0)
    run.saved_iteration = 3
    failed(run, NonFiniteGradientError("norm nan"))
    assert run.saved == []
    assert "saved as of 3 iterations" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "rank", "told"),
    [
        (GRADIENTS[0], "0", "stopped: norm nan"),
        (GRADIENTS[0], "1", ""),
        (MemoryExhaustedError("here"), "1", "stopped: here"),
    ],
)
def test_what_ends_all_processes_is_told_by_one(tmp_path, monkeypatch, capsys, error, rank, told):
    def stopped(*args: Any, **kwargs: Any) -> None:
        raise error

    monkeypatch.setattr("training.run.trained", stopped)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", rank)
    assert main(["frozenlake_tiny", "--output", str(tmp_path)]) == 1
    assert capsys.readouterr().err.strip() == told
