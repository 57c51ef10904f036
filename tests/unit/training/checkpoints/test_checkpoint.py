"""A checkpoint is there as a whole or not at all, whenever the machine stops."""

from __future__ import annotations

import math
import os
import shutil

import pytest
import torch

from agents.hf.checkpoint import PROVENANCE
from tests.unit.models import load
from training.checkpoints import checkpoint_files, checkpoint_state
from training.checkpoints.checkpoint_files import provenance_of
from training.checkpoints.checkpoint_state import load_checkpoint_state, save_checkpoint, save_model


@pytest.fixture
def saved(tiny, tmp_path):
    """A checkpoint directory that holds number 1, and what number 2 is saved from."""
    save_checkpoint(tmp_path / "latest", {"number": 1}, *tiny)
    return tmp_path / "latest"


def test_a_checkpoint_comes_back(saved, tiny):
    assert load_checkpoint_state(saved) == {"number": 1}
    model, _ = load(saved / "model")
    assert all(torch.equal(value, tiny[0].state_dict()[name]) for name, value in model.state_dict().items())
    save_checkpoint(saved, {"number": 2}, *tiny)
    assert load_checkpoint_state(saved) == {"number": 2}
    assert [path.name for path in saved.parent.iterdir()] == ["latest"], "nothing is left lying about"


@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077])
def test_all_files_of_a_checkpoint_follow_the_umask(tiny, tmp_path, umask):
    before = os.umask(umask)
    try:
        save_checkpoint(tmp_path / "latest", {"number": 1}, *tiny)
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "latest").rglob("*") if path.is_file()}
    assert modes == dict.fromkeys(modes, 0o666 & ~umask)
    assert {"state.pt", "config.json", "model.safetensors"} <= set(modes)


def test_a_save_that_fails_leaves_the_old_one(saved, tiny, monkeypatch):
    def no_space(*args, **kwargs):
        raise OSError("no space left on device")

    monkeypatch.setattr(checkpoint_state.torch, "save", no_space)
    with pytest.raises(OSError, match="no space"):
        save_checkpoint(saved, {"number": 2}, *tiny)
    assert load_checkpoint_state(saved) == {"number": 1}
    assert [path.name for path in saved.parent.iterdir()] == ["latest"]


def test_what_a_killed_save_left_behind_is_ignored_and_swept_away(saved, tiny):
    left = saved.with_name(".latest.tmp")
    left.mkdir()
    (left / "state.pt").write_bytes(b"half a file")
    assert load_checkpoint_state(saved) == {"number": 1}
    save_checkpoint(saved, {"number": 2}, *tiny)
    assert load_checkpoint_state(saved) == {"number": 2}
    assert not (saved / "half a file").exists()
    assert [path.name for path in saved.parent.iterdir()] == ["latest"]


def test_a_kill_between_the_two_renames_loses_nothing(saved, tiny, monkeypatch):
    replace, calls = os.replace, []

    def killed_at_the_second(source, target):
        calls.append(target)
        if len(calls) == 2:
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(checkpoint_files.os, "replace", killed_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        save_checkpoint(saved, {"number": 2}, *tiny)
    monkeypatch.setattr(checkpoint_files.os, "replace", replace)
    assert not saved.exists(), "the moment this test is about"
    assert load_checkpoint_state(saved) == {"number": 1}
    assert (saved / "model" / "config.json").is_file()


def test_a_kill_before_the_old_one_is_removed_keeps_the_new_one(saved, tiny):
    shutil.copytree(saved, saved.with_name(".latest.old"))
    save_checkpoint(saved, {"number": 2}, *tiny)
    assert load_checkpoint_state(saved) == {"number": 2}
    assert not saved.with_name(".latest.old").exists()


def test_two_processes_may_bring_the_old_one_back_at_once(saved, monkeypatch):
    old = saved.with_name(".latest.old")
    saved.rename(old)
    replace = os.replace

    def second(source, target):
        replace(source, target)  # as the other process does first
        replace(source, target)

    monkeypatch.setattr(checkpoint_files.os, "replace", second)
    assert checkpoint_files.has_checkpoint(saved)
    assert load_checkpoint_state(saved) == {"number": 1}


def test_a_model_alone_can_be_saved_over_another(tiny, tmp_path):
    for _ in range(2):
        save_model(tmp_path / "model", *tiny)
    assert load(tmp_path / "model")[0].config.model_type == "qwen3_vl"


def test_no_checkpoint_is_explained(tmp_path):
    with pytest.raises(FileNotFoundError, match="start it again without --resume"):
        load_checkpoint_state(tmp_path / "latest")


def test_a_checkpoint_says_what_its_model_was_made_from_and_a_damaged_one_nothing(saved, tiny):
    assert provenance_of(saved / "model") is None
    made_from = {"worlds": [{"env_id": "VLM/SVG-v0", "kwargs": {"sizes": {3, 4}, "scale": math.nan}}]}
    save_checkpoint(saved, {"number": 2}, *tiny, provenance=made_from)
    told = {"worlds": [{"env_id": "VLM/SVG-v0", "kwargs": {"sizes": [3, 4], "scale": None}}]}
    assert provenance_of(saved / "model") == told, "a checkpoint fails for no argument of a world"
    (saved / "model" / PROVENANCE).write_text("[")
    assert provenance_of(saved / "model") is None
