"""Checkpoints that agents and training are tested with: tiny, untrained, made once per test session.

The fixtures import torch and transformers, which take seconds, and most tests below need neither.
"""

from __future__ import annotations

import multiprocessing

import pytest

PRELOADED = (
    "benchmarks.__main__",
    "benchmarks.models.cli.run_command",
    "openai",
    "agents.api.transport",
    "agents.api.api_agent",
)
"""What commands in processes of their own import."""


@pytest.fixture(scope="session", autouse=True)
def worker_processes_are_forks():
    """Starts worker processes from a fork server, in 0.01 instead of 0.4 CPU seconds; tests of `spawn` name it."""
    from vlm_envs.vector.vector_world import VectorWorld

    multiprocessing.set_forkserver_preload(["vlm_envs.vector.workers", *PRELOADED])
    VectorWorld.__init__.__kwdefaults__["start_method"] = "forkserver"


@pytest.fixture(scope="session")
def tiny_directory(tmp_path_factory):
    """The embedded tiny VLM, a Qwen3-VL, as `save_pretrained` writes it; two layers prove what four do, sooner."""
    from agents.hf.tiny_vlm import TinyConfig
    from tests.unit.models import save_tiny as save_tiny_qwen3_vl

    directory = tmp_path_factory.mktemp("qwen3_vl")
    save_tiny_qwen3_vl(directory, TinyConfig(num_layers=2))
    return directory


@pytest.fixture(scope="session")
def qwen2_5_directory(tmp_path_factory, tiny_directory):
    """A random Qwen2.5-VL of the same tokenizer."""
    from tests.unit.models import save_tiny_qwen2_5_vl

    directory = tmp_path_factory.mktemp("qwen2_5_vl")
    save_tiny_qwen2_5_vl(directory, tiny_directory)
    return directory


@pytest.fixture
def tiny(tiny_directory):
    """A fresh tiny model, free to be changed, and its chat encoder."""
    from tests.unit.models import load

    return load(tiny_directory)


@pytest.fixture(params=["tiny_directory", "qwen2_5_directory"])
def family_directory(request):
    """A checkpoint of each supported family in turn."""
    return request.getfixturevalue(request.param)
