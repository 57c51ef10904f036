"""Tensors of several processes on disk: a failed write is an ordinary error, reported by one process."""

from __future__ import annotations

import errno
import warnings
from pathlib import Path

import pytest
import torch

from tests.unit.training.full_disk import limit_files, run_forked
from tests.unit.training.update.test_micro_batches import OneOfSeveral
from training.checkpoints.checkpoint_state import (
    load_checkpoint_state,
    read_tensors,
    save_checkpoint,
    save_together,
    split,
    write_tensors,
)
from training.engines.engine import LocalEngine
from training.errors import DiskFullError, PeerError
from training.loop.interrupts import full_disk_told


class _Second(LocalEngine):
    num_processes, rank = 2, 1

    def on_main(self, make, *, is_long=False):
        """Returns nothing: the main process makes it."""


class _First(LocalEngine):
    """The main process of two; the second one does its part while this one waits for it."""

    num_processes = 2

    def __init__(self, second):
        self.second = second

    def gather(self, items):
        self.second()
        return [*items, *items]


def fill_the_disk(directory):
    limit_files(4096)
    tensors = {"weight": torch.zeros(100_000)}
    with pytest.raises(DiskFullError, match="No space left to write to"), full_disk_told(Path(directory)):
        write_tensors(Path(directory, "shards"), tensors, LocalEngine())
    with pytest.raises(PeerError, match="process 0 could not write its part of the checkpoint"):
        write_tensors(Path(directory, "shards"), tensors, _Second())
    latest = Path(directory, "run", "latest")
    with pytest.raises((OSError, RuntimeError), match="could not write"):
        save_together(latest, LocalEngine(), {"learner": tensors}, {}, None, None)


def test_a_full_disk_is_reported_by_the_main_process_alone_and_leaves_the_last_checkpoint(tmp_path):
    latest = tmp_path / "run" / "latest"
    latest.mkdir(parents=True)
    (latest / "state.pt").write_text("the last one")
    run_forked(fill_the_disk, tmp_path)
    assert [path.name for path in latest.parent.iterdir()] == ["latest"], "the unfinished one takes no room"
    assert (latest / "state.pt").read_text() == "the last one"


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_what_a_process_could_not_write_for_another_reason_keeps_its_number(tmp_path):
    (tmp_path / "shards").write_text("a file where a folder is to be")
    with pytest.raises(OSError, match="process 0 could not write") as caught:
        write_tensors(tmp_path / "shards", {"weight": torch.zeros(3)}, LocalEngine())
    assert caught.value.errno in (errno.EEXIST, errno.ENOTDIR)


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_one_process_reads_alone_without_a_word(tmp_path):
    skeleton, tensors = split({"weight": torch.arange(5)})
    write_tensors(tmp_path / "shards", tensors, LocalEngine())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        state = read_tensors(tmp_path / "shards", skeleton, None, None)
    assert torch.equal(state["weight"], torch.arange(5))


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_of_a_checkpoint_by_two_processes_each_reads_what_was_its_own(tiny, tmp_path):
    latest = tmp_path / "latest"
    state = {"iteration": 3, "learner": {"weight": torch.arange(5)}}
    own = [{"agent": rank, "torch_rng": torch.tensor([rank])} for rank in range(2)]
    second = _Second()
    save_together(latest, _First(lambda: save_together(latest, second, state, own[1], *tiny)), state, own[0], *tiny)
    engines = [_First(lambda: None), second, OneOfSeveral(2, 3)]
    read = [load_checkpoint_state(latest, engine=engine) for engine in engines]
    assert [each["agent"] for each in read] == [0, 1, None], "a third process was not there"
    assert all(each["iteration"] == 3 and torch.equal(each["learner"]["weight"], torch.arange(5)) for each in read)


def test_of_a_checkpoint_by_one_process_the_others_have_nothing_of_their_own(tiny, tmp_path):
    own = {"agent": 0, "torch_rng": torch.tensor([0])}
    save_checkpoint(tmp_path / "latest", {"learner": {"weight": torch.arange(5)}, **own}, *tiny)
    first, other = (load_checkpoint_state(tmp_path / "latest", engine=OneOfSeveral(rank, 2)) for rank in range(2))
    assert first["agent"] == 0 and torch.equal(first["torch_rng"], own["torch_rng"])
    assert other["agent"] is None and other["torch_rng"] is None
    assert all(torch.equal(each["learner"]["weight"], torch.arange(5)) for each in (first, other))
