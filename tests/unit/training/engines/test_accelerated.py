"""Two and three processes come to what one comes to, by DDP and by FSDP2, however uneven the rows are."""

from __future__ import annotations

import copy

import pytest
import torch

from tests.unit.training.batches import played_batch
from tests.unit.training.engines.several_processes import CONFIGS, launched, trained, with_text_rows
from training.engines.engine import LocalEngine
from training.loop.micro_batches import shared_rows


@pytest.fixture(scope="module")
def directory(tiny_directory, tmp_path_factory):
    """What the processes read, and where they write."""
    directory = tmp_path_factory.mktemp("case")
    (directory / "model").symlink_to(tiny_directory)
    return directory


@pytest.fixture(scope="module")
def alone(tiny_directory, directory):
    """What one process comes to, by algorithm: with rows of many lengths, some without pictures, and one row over."""
    from tests.unit.models import load

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    model, encoder = load(tiny_directory)
    batch = with_text_rows(played_batch(copy.deepcopy(model), encoder, num_rows=7), {0, 3, 4})
    torch.save(batch, directory / "case.pt")
    reached = {
        name: trained(model, encoder.suppressed_ids(), config, batch, LocalEngine()) for name, config in CONFIGS.items()
    }
    torch.set_num_threads(before)
    return reached | {"start": model.state_dict(), "batch": batch}


@pytest.mark.parametrize(
    ("num_processes", "names"),
    [
        (2, ["ddp-bilevel_gae", "fsdp2-bilevel_gae", "fsdp2-grpo"]),
        (3, ["fsdp2-bilevel_gae", "ddp-grpo"]),
        (2, ["ddp-frozen", "fsdp2-frozen"]),
        (2, ["ddp-lora", "fsdp2-lora"]),
    ],
)
def test_several_processes_come_to_what_one_comes_to(alone, directory, num_processes, names):
    processes = launched(num_processes, str(directory), *names)
    told = [process.communicate(timeout=240)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * num_processes, told
    for name in names:
        got, want = torch.load(directory / f"{name}.pt", weights_only=False), alone[name.partition("-")[2]]
        for part in ("policy", "acting", "critic", "reference"):
            assert got[part].keys() == want[part].keys()
            for key, value in want[part].items():
                assert torch.allclose(got[part][key], value, rtol=0, atol=1e-5), (name, part, key)
        for key, value in want["outputs"].items():
            assert torch.allclose(got["outputs"][key], value, rtol=1e-4, atol=1e-4), (name, key)
        for first, second in zip(got["metrics"], want["metrics"], strict=True):
            assert first == pytest.approx(second, rel=1e-3, abs=1e-4), name


def test_the_case_is_one_that_could_tell(alone):
    for name in CONFIGS:
        start, policy = alone["start"], alone[name]["policy"]
        learnt = [key for key in policy if key in start or ".lora_B." in key]  # adapters begin with 0
        moved = max((policy[key] - start.get(key, torch.zeros(()))).abs().max() for key in learnt)
        assert moved > 1e-4, "ten times what may differ"
    lengths = alone["batch"].attention_mask_BT.sum(-1).tolist()
    assert len(set(lengths)) > 3
    assert [] in shared_rows([6], lengths, 2), "a process without a row"
    has_pictures = torch.tensor(alone["batch"].row_image_offsets).diff() > 0
    assert has_pictures.any()
    assert not has_pictures.all()
