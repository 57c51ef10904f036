"""What a run keeps in the host's memory, planned and really, and that one for which it is too little does not begin."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch

from tests.unit.second_device import moved, second_device
from tests.unit.slow import quick
from tests.unit.training.batches import run_config
from tests.unit.training.update.test_offload import PPO, updated_twice
from training.checkpoints.checkpoint_state import copied
from training.config.update_config import LoRAConfig, MemoryConfig
from training.engines.host_memory import HostBytes, local_bytes
from training.loop import interrupts, trainer
from training.loop.trainer import host_bytes, require_host_memory, shortage
from training.memory_plan.memory_estimate import Spread, in_hosts_memory
from training.memory_plan.model_bytes import shape_of
from training.run import train
from training.update.learner import Learner
from vlm_envs.errors import ConfigError

GIB = 2**30


@pytest.fixture
def played(played_by_tiny):
    return played_by_tiny(num_rows=4)


def learner_of(model, encoder, **changes):
    return Learner(model, encoder.suppressed_ids(), run_config(num_groups=2, ppo=PPO, num_iterations=2, **changes))


def tensors_of(state):
    if isinstance(state, torch.Tensor):
        return [state] if state.dim() else []  # AdamW's counts of steps, buffers without dimensions
    if not isinstance(state, dict | list | tuple):
        return []
    return [each for value in (state.values() if isinstance(state, dict) else state) for each in tensors_of(value)]


@pytest.mark.parametrize(
    ("dtype", "changes"),
    [
        pytest.param(
            torch.bfloat16,
            {"memory": MemoryConfig(offload_reference=True, offload_optimizer=True)},
            id="all",
            marks=pytest.mark.soak,
        ),
        pytest.param(
            torch.bfloat16,
            {"memory": MemoryConfig(freeze_vision_tower=True, offload_reference=True, offload_optimizer=True)},
            id="frozen",
            marks=pytest.mark.soak,
        ),
        pytest.param(torch.float32, {"memory": MemoryConfig(offload_optimizer=True)}, id="float32"),
        pytest.param(torch.float32, {"lora": LoRAConfig(rank=2)}, id="adapters"),
        pytest.param(torch.float32, {"checkpoint_every": 1}, id="no copy", marks=pytest.mark.soak),
    ],
)
def test_planned_is_what_is_found_before_the_first_step_and_what_is_there_behind_it(played, dtype, changes):
    model, encoder, batch = played
    model.lm_head = model.lm_head.head  # without the bias that the batch was played with
    learner = learner_of(model.to(dtype), encoder, **changes)
    memory, has_adapters = learner.config.memory, learner.config.lora.rank is not None
    before = host_bytes(learner)
    planned = in_hosts_memory(
        shape_of(learner.policy, learner.policy),
        shape_of(learner.critic, learner.policy),
        Spread(
            engine="local",
            num_processes=1,
            compute_bytes=dtype.itemsize,
            offloads_reference=memory.offload_reference,
            offloads_optimizer=memory.offload_optimizer,
        ),
        has_reference=not has_adapters,
        has_adapters=has_adapters,
        keeps_copy=learner.config.keeps_copy,
    )
    assert vars(before) == pytest.approx(vars(planned), abs=64), "but for buffers of the critic, of some bytes"
    updated_twice(learner, batch)
    optimizers = learner.policy_optimizer, learner.critic_optimizer
    states = sum(local_bytes(each.idle_tensors()) for each in optimizers)
    assert before.states == (states if memory.offload_optimizer else 0)
    there = local_bytes(tensors_of(copied(learner.state_dict())))
    assert before.copy == pytest.approx(there if learner.config.keeps_copy else 0, abs=64)


WRITTEN = ", and all of the state is written after each iteration"


@pytest.mark.parametrize(
    ("needed", "available", "remedy"),
    [
        (HostBytes(states=3, copy=3), None, None),
        (HostBytes(states=3, copy=3), 12, None),
        (HostBytes(copy=3), 5, f"Use --checkpoint-every 1 (then 0.0 GiB{WRITTEN})."),
        (HostBytes(states=3), 5, "Use --memory.no-offload-optimizer (then 0.0 GiB, and more of the GPU's)."),
        (HostBytes(reference=2, states=3, copy=6), 11, f"Use --checkpoint-every 1 (then 10.0 GiB{WRITTEN})."),
        (
            HostBytes(reference=2, states=3, copy=4),
            9,
            "Use --memory.no-offload-optimizer --memory.no-offload-reference (then 8.0 GiB, and more of the GPU's).",
        ),
        (
            HostBytes(reference=2, copy=2),
            3,
            f"Use --checkpoint-every 1 --memory.no-offload-reference (then 0.0 GiB, and more of the GPU's{WRITTEN}).",
        ),
    ],
)
def test_a_shortage_is_told_with_what_mends_it(needed, available, remedy):
    """Of two processes of one machine, in GiB."""
    needed = HostBytes(**{name: value * GIB for name, value in vars(needed).items()})
    told = shortage(needed, None if available is None else available * GIB, num_processes=2)
    if remedy is None:
        assert told is None
    else:
        assert f"needs {2 * needed.total / GIB:.1f} GiB of the host's memory, but there are {available}.0" in told
        assert remedy in told
        assert told.endswith(f"training plan with --num-gpus 2 --host-memory {available}.0.")


def test_only_what_is_on_another_device_is_refused(played, monkeypatch):
    model, encoder, _ = played
    monkeypatch.setattr(trainer, "host_memory", lambda: 1000)
    require_host_memory(learner_of(copy.deepcopy(model), encoder))
    with second_device():
        learner = learner_of(moved(model), encoder)
        with pytest.raises(ConfigError, match="--checkpoint-every 1"):
            require_host_memory(learner)
        require_host_memory(learner_of(learner.policy, encoder, checkpoint_every=1))
        monkeypatch.setattr(trainer, "host_memory", lambda: None)
        require_host_memory(learner)


def lake_run(tiny_directory, output, **changes):
    return run_config(
        model=str(tiny_directory), output=str(output), num_eval_episodes=0, ppo=PPO, num_threads=1, **changes
    )


def test_nothing_is_left_of_a_run_that_is_refused(tiny_directory, tmp_path, monkeypatch):
    def refused(learner):
        raise ConfigError("too little")

    monkeypatch.setattr(trainer, "require_host_memory", refused)
    config = lake_run(tiny_directory, tmp_path)
    with pytest.raises(ConfigError, match="too little"):
        train(config)
    assert [path for path in Path(config.output, config.name).rglob("*") if path.suffix != ".lock"] == []


@pytest.mark.parametrize(("num_iterations", "checkpoint_every"), quick([(1, 0), (2, 1), (2, 2)], (2, 1)))
def test_a_run_keeps_a_copy_if_its_configuration_says_so(
    tiny_directory, tmp_path, monkeypatch, num_iterations, checkpoint_every
):
    kept = []
    monkeypatch.setattr(interrupts, "copied", kept.append)
    lengths = {"num_iterations": num_iterations, "checkpoint_every": checkpoint_every}
    config = lake_run(tiny_directory, tmp_path, **lengths)
    train(config)
    assert bool(kept) == config.keeps_copy == (lengths == {"num_iterations": 2, "checkpoint_every": 2})
