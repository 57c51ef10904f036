"""Bytes against sums by hand, for the model of VAGEN's paper."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[train]'")
import torch

from tests.unit.training.memory_plan.configs import save_3b
from training.engines.host_memory import HostBytes
from training.engines.policy import ValueModel
from training.memory_plan.memory_estimate import (
    Spread,
    gathered,
    gradients_beside,
    held,
    in_hosts_memory,
    kv_cache,
    model_and_states,
    step_extras,
)
from training.memory_plan.model_bytes import PassBytes, model_without_memory, shape_of

NUM = 3_754_622_976
NUM_CRITIC = NUM + 2048 + 1
TIED = 151_936 * 2048
"""Embeddings that are the head, too."""
NO_PASS = PassBytes()


@pytest.fixture(scope="module")
def shapes(tmp_path_factory):
    model = model_without_memory(save_3b(tmp_path_factory.mktemp("3b")), torch.bfloat16)
    return shape_of(model, model), shape_of(ValueModel(model), model)


def spread(engine="local", num_gpus=1, compute_bytes=2, is_fused=True):
    return Spread(engine=engine, num_processes=num_gpus, compute_bytes=compute_bytes, is_fused=is_fused)


def offloaded(*lies):
    return replace(spread(*lies), offloads_reference=True, offloads_optimizer=True)


@pytest.mark.parametrize(
    ("engine", "num_gpus", "compute_bytes", "weight_bytes", "masters", "sampler"),
    [
        ("local", 1, 2, 2, 4, 0),
        ("local", 1, 4, 4, 0, 0),
        ("ddp", 8, 2, 4, 0, 2),
        ("ddp", 8, 4, 4, 0, 0),
        ("fsdp2", 8, 2, 4, 0, 2),
        ("fsdp2", 8, 4, 4, 0, 4),
    ],
)
def test_what_is_always_there(shapes, engine, num_gpus, compute_bytes, weight_bytes, masters, sampler):
    lies = spread(engine, num_gpus, compute_bytes)
    num_shards = num_gpus if engine == "fsdp2" else 1
    assert held(*shapes, lies, has_reference=True, fixed={"vLLM": 5.0}) == {
        "weights": NUM * weight_bytes / num_shards,
        "sampler": NUM * sampler,
        "masters": NUM * masters / num_shards,
        "Adam": NUM * 8 / num_shards,
        "reference": NUM * weight_bytes / num_shards,
        "critic": NUM_CRITIC * (weight_bytes + masters + 8) / num_shards,
        "buckets": 4 * (NUM + NUM_CRITIC) if engine == "ddp" else 0,
        "vLLM": 5.0,
    }


@pytest.mark.parametrize("at_hand", [None, "reference", "policy", "critic"])
def test_what_waits_in_the_hosts_memory(shapes, at_hand):
    everything = held(*shapes, spread(), has_reference=True, fixed={})
    assert held(*shapes, offloaded(), has_reference=True, fixed={}, at_hand=at_hand) == everything | {
        "masters": NUM * 4 * (at_hand == "policy"),
        "Adam": NUM * 8 * (at_hand == "policy"),
        "reference": NUM * 2 * (at_hand == "reference"),
        "critic": NUM_CRITIC * (14 if at_hand == "critic" else 2),
    }


@pytest.mark.parametrize(
    ("lies", "expected"),
    [
        (spread(), HostBytes(copy=NUM * 14 + TIED * 2 + NUM_CRITIC * 14)),
        (
            offloaded(),
            HostBytes(reference=NUM * 2, states=(NUM + NUM_CRITIC) * 12, copy=(NUM + NUM_CRITIC) * 14 + TIED * 2),
        ),
        (
            offloaded("ddp", 8),
            HostBytes(reference=NUM * 4, states=(NUM + NUM_CRITIC) * 8, copy=(NUM + NUM_CRITIC) * 12 + TIED * 4),
        ),
        (spread("fsdp2", 8), HostBytes(copy=((NUM + NUM_CRITIC) * 12 + TIED * 4) / 8)),
    ],
)
def test_what_the_host_keeps(shapes, lies, expected):
    options = {"has_reference": True, "has_adapters": False}
    assert in_hosts_memory(*shapes, lies, **options, keeps_copy=True) == expected
    assert in_hosts_memory(*shapes, lies, **options, keeps_copy=False) == replace(expected, copy=0)


def test_a_frozen_tower_is_whole_in_each_process(shapes):
    tower = 668_684_288
    frozen = replace(shapes[0], num_frozen_vision=tower)
    assert spread("fsdp2", 8).kept(frozen) == 4 * ((NUM - tower) / 8 + tower)


def test_neither_reference_nor_critic(shapes):
    parts = held(shapes[0], None, spread(), has_reference=False, fixed={})
    assert parts["reference"] == parts["critic"] == 0
    assert sum(parts.values()) == 14 * NUM == model_and_states(shapes[0], spread())


def test_what_is_frozen_is_held_once(shapes):
    policy, critic = (replace(shape, num_trained=shape.num_trained - shape.num_vision) for shape in shapes)
    parts = held(policy, critic, spread(), has_reference=True, fixed={})
    assert parts["weights"] == 2 * NUM
    assert parts["reference"] == 2 * (NUM - 668_684_288)
    assert parts["critic"] == 14 * (NUM_CRITIC - 668_684_288)


@pytest.mark.parametrize(
    ("weight_bytes", "num_micro_batches", "expected"),
    [
        (4, 1, 4 * NUM),  # float32 gradients come into being in the only backward pass
        (4, 3, 4 * NUM),  # those of the first are there in the second, which adds its own, one by one
        (2, 1, 2 * NUM),  # afterwards they become float32, one by one
        (2, 3, 6 * NUM),  # those of the first as float32, and the second's
    ],
)
def test_gradients(shapes, weight_bytes, num_micro_batches, expected):
    found = gradients_beside(
        NO_PASS, shapes[0], spread(compute_bytes=weight_bytes), num_micro_batches=num_micro_batches
    )
    assert found == expected


def test_ddps_gradients_go_into_its_buckets(shapes):
    lies, embeddings = spread("ddp", 8), 4 * 151_936 * 2048
    assert gradients_beside(NO_PASS, shapes[0], lies, num_micro_batches=1) == embeddings  # each one until it is there
    assert gradients_beside(NO_PASS, shapes[0], lies, num_micro_batches=2) == 4 * NUM  # only the last ones' are


def test_gradients_come_as_activations_go(shapes):
    goes = PassBytes(kept=8.0 * NUM)
    assert gradients_beside(goes, shapes[0], spread(compute_bytes=4), num_micro_batches=1) == 0  # 4 are below 8
    assert gradients_beside(goes, shapes[0], spread(compute_bytes=4), num_micro_batches=2) == 4 * NUM


def test_what_gpus_put_together(shapes):
    layer = 77_076_992  # 36 of them, wider than the vision tower's
    outside = shapes[0].num_outside_layers
    assert shapes[0].largest_layer == layer and outside > 151_936 * 2048
    trained, not_trained = {"is_trained": True}, {"is_trained": False}
    assert gathered(shapes[0], spread(), **trained) == 0
    assert gathered(shapes[0], spread("ddp", 8, 4), **trained) == 0
    assert gathered(shapes[0], spread("ddp", 8), **trained) == 2 * NUM  # weights in bfloat16
    assert gathered(shapes[0], spread("ddp", 8), **not_trained) == 2 * NUM
    tower = 668_684_288
    adapted = replace(shapes[0], num_trained=1000, num_frozen_vision=tower)
    assert gathered(adapted, spread("ddp", 8), **trained) == 2 * (NUM - tower)
    assert gathered(adapted, spread("ddp", 8), **trained, recomputes_layers=True) == 2 * 1000
    assert gathered(adapted, spread("ddp", 8), **not_trained) == 2 * 1000
    assert gathered(shapes[0], spread("fsdp2", 8), **not_trained) == 2 * (outside + 2 * layer)
    assert gathered(shapes[0], spread("fsdp2", 8), **trained) == 2 * (2 * outside + 3 * layer) + 4 * outside


def test_a_step_on_the_cpu_copies_what_it_changes_in_place(shapes):
    largest = 151_936 * 2048
    assert step_extras(shapes[0], spread()) == 0
    assert step_extras(shapes[0], spread(is_fused=False)) == 4 * 2 * largest
    assert step_extras(shapes[0], spread(compute_bytes=4, is_fused=False)) == 4 * (2 * largest + NUM)


def test_keys_and_values(shapes):
    per_token = 2 * 36 * 2 * 128 * 2
    found = kv_cache(shapes[0], spread(), num_rows=16, num_tokens=1000, num_layers=36)
    assert found == pytest.approx(16 * 1024 * per_token * 37 / 36)
