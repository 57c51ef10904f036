"""What tests of training share."""

from __future__ import annotations

import copy
from functools import cache

import pytest
import torch

from agents.hf.tiny_vlm import TinyConfig
from tests.unit.models import load, save_tiny
from tests.unit.training.batches import played_batch
from tests.unit.training.reports import empty_reports


@pytest.fixture(scope="session")
def tiny_directory(tmp_path_factory):
    """The embedded tiny VLM with one layer: most of a run's time passes between layers, not in them.

    Tests of agents have two layers, and so have the other families here.
    """
    directory = tmp_path_factory.mktemp("qwen3_vl")
    save_tiny(directory, TinyConfig(num_layers=1, mlp_width=128))
    return directory


@pytest.fixture(autouse=True)
def threads_kept():
    """Leaves torch as many threads as it had: runs are compared bit by bit, and take sums in an order of theirs."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def report_of_nothing(request):
    """Has runs end in empty reports; `report` marks tests that need one."""
    if request.node.get_closest_marker("report") is not None:
        yield
        return
    with empty_reports():
        yield


@pytest.fixture(scope="session")
def played_by_tiny(tiny_directory):
    """Returns what returns copies of the tiny model, its encoder and a batch of so many rows, which is played once."""

    @cache
    def played(num_rows):
        model, encoder = load(tiny_directory)
        batch = played_batch(model, encoder, num_rows=num_rows)  # by a model whose responses end, which this makes it
        return model, encoder, batch

    return lambda num_rows=8: copy.deepcopy(played(num_rows))
