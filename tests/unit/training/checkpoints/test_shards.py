"""Tensors of several processes on disk: a failed write is an ordinary error, of which one process tells."""

from __future__ import annotations

import errno
import warnings
from pathlib import Path

import pytest
import torch

from tests.unit.training.full_disk import limit_files, run_apart
from training.checkpoints.shards import read_tensors, split, write_tensors
from training.checkpoints.state import save_together
from training.engines.engine import LocalEngine
from training.errors import DiskFullError, PeerError
from training.loop.disk import full_disk_told


class _Second(LocalEngine):
    rank = 1


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
    run_apart(fill_the_disk, tmp_path)
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
