"""Two and three processes come to what one comes to, in every way of training that they differ in."""

from __future__ import annotations

import pytest
import torch

from tests.unit.training.engines.several_processes import CONFIGS, Alone, check_processes


@pytest.fixture(scope="module")
def alone(tiny_directory, tmp_path_factory):
    """What one process comes to."""
    return Alone(tiny_directory, tmp_path_factory.mktemp("case"))


@pytest.mark.parametrize(
    ("num_processes", "names"),
    [
        (2, ["ddp-grpo", "fsdp2-grpo"]),
        (2, ["ddp-bilevel_gae"]),
        (3, ["ddp-bilevel_gae", "fsdp2-bilevel_gae", "ddp-grpo"]),
        (2, ["ddp-frozen", "fsdp2-frozen"]),
        (2, ["ddp-lora", "fsdp2-lora"]),
    ],
)
def test_several_processes_come_to_what_one_comes_to(alone, num_processes, names):
    check_processes(alone, num_processes, *names)


def test_the_cases_are_ones_that_could_tell(alone):
    for name in CONFIGS:
        policy = alone[name]["policy"]
        learnt = [key for key in policy if key in alone.start or ".lora_B." in key]  # adapters begin with 0
        moved = max((policy[key] - alone.start.get(key, torch.zeros(()))).abs().max() for key in learnt)
        assert moved > 1e-4, (name, "ten times what may differ")
