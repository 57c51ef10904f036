"""Where a model is put."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[train]'")

import torch

from agents.hf.checkpoint import torch_device


@pytest.fixture
def cudnn():
    was_enabled = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(True)
    yield torch.backends.cuda.cudnn_sdp_enabled
    torch.backends.cuda.enable_cudnn_sdp(was_enabled)


@pytest.mark.parametrize("device", ["auto", "cuda", "cuda:1"])
def test_attention_on_a_gpu_goes_without_cudnn(cudnn, monkeypatch, device):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("agents.hf.checkpoint.require_device", lambda device: None)
    assert torch_device(device).type == "cuda"
    assert not cudnn()


def test_elsewhere_it_is_left_as_it_is(cudnn):
    assert torch_device("cpu").type == "cpu"
    assert cudnn()
