"""Two processes come to what one comes to, by FSDP2, however uneven the rows are.

DDP, more processes, algorithms, a frozen tower and adapters are in `make soak`.
"""

from __future__ import annotations

import itertools

import pytest
import torch

from tests.unit.training.engines.several_processes import LOOKED, PARTS, Alone, check_reached, run_processes
from training.update.micro_batches import shared_rows

MODELS = ("policy", "reference", "critic")


@pytest.fixture(scope="module")
def alone(tiny_directory, tmp_path_factory):
    """What one process comes to, beside what two have come to."""
    alone = Alone(tiny_directory, tmp_path_factory.mktemp("case"))
    run_processes(alone, 2, "fsdp2-bilevel_gae")
    return alone


def test_two_processes_come_to_what_one_comes_to(alone):
    check_reached(alone, "fsdp2-bilevel_gae")


@pytest.mark.soak
def test_all_models_run_in_one_type_and_start_alike(alone):
    run_processes(alone, 2, f"ddp-{LOOKED}", f"fsdp2-{LOOKED}")
    for kind in ("ddp", "fsdp2"):
        got = torch.load(alone.directory / f"{kind}-{LOOKED}.pt", weights_only=False)
        assert got["types"] == {each: {torch.bfloat16} for each in itertools.product(MODELS, PARTS)}, kind
        assert got["kl"] == 0, kind
    assert got["num_whole"] == dict.fromkeys(MODELS, 0), "what FSDP2 put together for a pass is let go of"


def test_the_case_is_one_that_could_tell(alone):
    policy = alone["bilevel_gae"]["policy"]
    assert max((policy[key] - alone.start[key]).abs().max() for key in policy) > 1e-4, "ten times what may differ"
    lengths = alone.batch.attention_mask_BT.sum(-1).tolist()
    assert len(set(lengths)) > 3
    assert [] in shared_rows([[6]], lengths, 2), "a process without a row"
    has_pictures = torch.tensor(alone.batch.row_image_offsets).diff() > 0
    assert has_pictures.any()
    assert not has_pictures.all()
