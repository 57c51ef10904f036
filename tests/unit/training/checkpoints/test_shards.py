"""Tensors of several processes on disk: a failed write is an ordinary error, of which one process tells."""

from __future__ import annotations

import errno
import resource
import warnings

import pytest
import torch

from training.checkpoints.shards import read_tensors, split, write_tensors
from training.checkpoints.state import save_together
from training.engines.engine import LocalEngine
from training.errors import DiskFullError, PeerError
from training.loop.disk import full_disk_told


class _Second(LocalEngine):
    rank = 1


@pytest.fixture
def no_room():
    """As if the disk were full: no file may grow beyond a few kilobytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_a_full_disk_is_told_of_in_one_line_by_the_main_process_and_the_others_leave_it_to_it(tmp_path, no_room):
    tensors = {"weight": torch.zeros(100_000)}
    with pytest.raises(DiskFullError, match="No space left to write to"), full_disk_told(tmp_path):
        write_tensors(tmp_path / "shards", tensors, LocalEngine())
    with pytest.raises(PeerError, match="process 0 could not write its part of the checkpoint"):
        write_tensors(tmp_path / "shards", tensors, _Second())


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
def test_a_checkpoint_that_several_could_not_write_takes_no_room(tmp_path, no_room):
    latest = tmp_path / "latest"
    latest.mkdir()
    (latest / "state.pt").write_text("the last one")
    state = {"learner": {"weight": torch.zeros(100_000)}}
    with pytest.raises((OSError, RuntimeError), match="could not write"):
        save_together(latest, LocalEngine(), state, {}, None, None)
    assert [path.name for path in tmp_path.iterdir()] == ["latest"]
    assert (latest / "state.pt").read_text() == "the last one"
