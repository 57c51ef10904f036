"""Whatever runs out, a run says so in one line with what to do, and goes on from a checkpoint."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from agents.hf.sampling_config import SamplingConfig
from tests.unit.slow import quick
from tests.unit.training.batches import WORLD, run_config
from tests.unit.training.full_disk import limit_files, run_apart
from tests.unit.training.gradients import assert_same_steps, sgd_steps
from tests.unit.training.test_run import differing, metrics_of
from tests.unit.training.update.test_micro_batches import OneOfSeveral
from training.__main__ import main
from training.algorithms.algorithm import CriticConfig
from training.algorithms.bilevel_gae import BilevelGAE
from training.checkpoints.checkpoint_state import load_checkpoint_state
from training.config.update_config import PPOConfig
from training.engines.policy import PolicyModel, ValueModel
from training.errors import DiskFullError, ExplodingGradientError, MemoryExhaustedError
from training.loop import trainer
from training.loop.trainer import Trainer
from training.run import train
from training.update import learner as learner_module
from training.update.learner import Learner
from training.update.micro_batches import accumulate_gradient, is_out_of_memory, memory_told

CUDA_SAYS = (
    "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.11 GiB of which 2 MiB is free. "
    "See documentation for Memory Management"
)


@pytest.fixture
def played(played_by_tiny):
    return played_by_tiny(num_rows=8)


def learner_of(model, encoder, engine=None, **ppo):
    algorithm = BilevelGAE(critic=CriticConfig(learning_rate=1e-3, num_minibatches=1))
    settings = {"num_minibatches": 1, "warmup_iterations": 0, "learning_rate": 1e-3, "micro_batch_size": 6}
    config = run_config(algorithm=algorithm, ppo=PPOConfig(**(settings | ppo)), num_groups=4)
    return Learner(copy.deepcopy(model), encoder.suppressed_ids(), config, engine)


def updated(learner, batch):
    outputs = learner.model_outputs(batch)
    return learner.update(batch, outputs, learner.config.algorithm.credit(batch, outputs), iteration=0)


def with_room_for(monkeypatch, kind, num_rows):
    """Lets gradients of a kind of model run out of memory whose micro-batch has more rows, behind its backward pass."""

    def passing(loss_of, micros, *, module, **settings):
        def failing():
            for micro in micros:
                yield micro
                if isinstance(module, kind) and len(micro.rows) > num_rows:
                    raise torch.OutOfMemoryError(CUDA_SAYS)

        return accumulate_gradient(loss_of, failing(), module=module, **settings)

    monkeypatch.setattr(learner_module, "accumulate_gradient", passing)


@pytest.mark.parametrize("kind", quick([PolicyModel, ValueModel], ValueModel))
def test_a_step_that_does_not_fit_is_taken_once_more_in_halves_and_nothing_of_it_counts_twice(
    played, monkeypatch, capsys, kind
):
    model, encoder, batch = played
    with sgd_steps() as expected_steps:
        expected = updated(learner_of(model, encoder, micro_batch_size=3), batch)
    with_room_for(monkeypatch, kind, 3)
    with sgd_steps() as steps:
        learner = learner_of(model, encoder)
        metrics = updated(learner, batch)
    shown = capsys.readouterr().err
    assert (
        shown.count("Memory ran out in the update: CUDA out of memory. Continuing with --ppo.micro-batch-size 3") == 1
    )
    assert metrics == pytest.approx(expected, rel=1e-3, abs=1e-6)
    assert_same_steps(steps, expected_steps)
    updated(learner, batch)
    assert "Memory" not in capsys.readouterr().err, "the smaller size is kept"


def test_a_budget_of_tokens_is_halved_too(played, monkeypatch, capsys):
    model, encoder, batch = played
    with_room_for(monkeypatch, PolicyModel, 4)
    alike = replace(batch.select([0] * 8), group_index_B=batch.group_index_B)
    length = alike.input_ids_BT.shape[1]
    updated(learner_of(model, encoder, micro_batch_tokens=9 * length), alike)
    assert f"Continuing with --ppo.micro-batch-tokens {4 * length}" in capsys.readouterr().err


@pytest.mark.parametrize("size", quick([6, 1], 1))
def test_what_does_not_fit_in_halves_either_stops_with_a_remedy(played, monkeypatch, size):
    model, encoder, batch = played
    with_room_for(monkeypatch, PolicyModel, 0)
    learner = learner_of(model, encoder, micro_batch_size=size)
    before = copy.deepcopy(learner.policy.state_dict())
    with pytest.raises(MemoryExhaustedError, match=r"--ppo\.micro-batch-tokens.*gradient-checkpointing.*--lora\.rank"):
        updated(learner, batch)
    assert all(torch.equal(weight, before[name]) for name, weight in learner.policy.state_dict().items())


def test_old_logprobs_are_computed_once_more_too(played, monkeypatch):
    model, encoder, batch = played
    expected = learner_of(model, encoder).model_outputs(batch)
    learner = learner_of(model, encoder)
    forward = learner._policy.forward

    def passing(part, entropy_mode):
        if part.num_rows > 3:
            raise torch.OutOfMemoryError(CUDA_SAYS)
        return forward(part, entropy_mode)

    monkeypatch.setattr(learner._policy, "forward", passing)
    outputs = learner.model_outputs(batch)
    assert torch.allclose(outputs.old_logprobs_BT, expected.old_logprobs_BT, atol=1e-5)
    assert torch.allclose(outputs.values_BT, expected.values_BT, atol=1e-5)


def test_one_of_several_processes_stops_for_the_others_may_be_waiting(played, monkeypatch):
    model, encoder, batch = played
    with_room_for(monkeypatch, PolicyModel, 1)
    with pytest.raises(MemoryExhaustedError, match=r"--ppo\.micro-batch-tokens"):
        updated(learner_of(model, encoder, OneOfSeveral(0, 2)), batch)


def test_memory_that_runs_out_is_told_from_other_failures():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60)
    assert is_out_of_memory(caught.value)
    assert is_out_of_memory(MemoryError())
    assert not is_out_of_memory(RuntimeError("Expected all tensors to be on the same device"))
    assert not is_out_of_memory(OSError(12, "Cannot allocate"))
    with pytest.raises(KeyError), memory_told("here", "Do this."):
        raise KeyError("other")


@pytest.fixture
def config(tiny_directory, tmp_path):
    return config_of(tiny_directory, tmp_path / "runs")


def config_of(model_directory, output):
    return run_config(
        worlds=(WORLD,),
        output=str(output),
        model=str(model_directory),
        num_iterations=3,
        num_eval_episodes=0,
        checkpoint_every=0,
        sampling=SamplingConfig(max_new_tokens=4),
        algorithm=BilevelGAE(critic=CriticConfig(num_minibatches=1, learning_rate=1e-3)),
        num_threads=1,
    )


def failing_in(number, real, fail):
    """Returns a function that calls `fail` before its work when it is called for the so many-th time."""
    calls = []

    def called(*args, **kwargs):
        calls.append(1)
        if len(calls) == number:
            fail()
        return real(*args, **kwargs)

    return called


def out_of_memory():
    raise torch.OutOfMemoryError(CUDA_SAYS)


def test_sampling_that_does_not_fit_stops_with_a_remedy_and_what_was_learnt(config, monkeypatch, capsys):
    monkeypatch.setattr(trainer.Collector, "collect", failing_in(2, trainer.Collector.collect, out_of_memory))
    with pytest.raises(MemoryExhaustedError, match=r"while sampling: CUDA out of memory\. .*lower --num-groups"):
        train(config)
    assert "saved as of 1 iterations. Resume with --resume." in capsys.readouterr().err
    assert load_checkpoint_state(Path(config.output, config.name, "latest"))["iteration"] == 1


@pytest.mark.soak
def test_a_run_that_could_not_sample_is_resumed_to_the_same_state(config, monkeypatch):
    straight = load_checkpoint_state(train(replace(config, name="straight")) / "latest")
    with monkeypatch.context() as patched, pytest.raises(MemoryExhaustedError):
        patched.setattr(trainer.Collector, "collect", failing_in(2, trainer.Collector.collect, out_of_memory))
        train(config)
    again = replace(config, ppo=replace(config.ppo, micro_batch_size=7))
    state = load_checkpoint_state(train(again, resume=True) / "latest")
    assert differing(straight, state) == [], "7 rows are all there are: nothing is rounded otherwise"


def train_until_the_disk_is_full(model_directory, output):
    Trainer._log = failing_in(2, Trainer._log, lambda: limit_files(64))
    with pytest.raises(DiskFullError) as caught:
        train(config_of(model_directory, output))
    print(caught.value)


@pytest.mark.soak
def test_a_full_disk_stops_with_what_is_saved_and_goes_on(config, tiny_directory):
    """The disk is full as the kernel says it: no file may grow beyond 64 bytes."""
    straight = load_checkpoint_state(train(replace(config, name="straight")) / "latest")
    told = run_apart(train_until_the_disk_is_full, tiny_directory, config.output)
    assert f"No space left to write to {config.output}/test." in told
    assert "Its last checkpoint is whole, as of 0 iterations" in told and "resume with --resume" in told
    assert "this run could not be saved" in told
    directory = train(config, resume=True)
    assert differing(straight, load_checkpoint_state(directory / "latest")) == []
    assert [line["iteration"] for line in metrics_of(directory)] == [0, 1, 2]


@pytest.mark.parametrize("error", [MemoryExhaustedError, DiskFullError, ExplodingGradientError])
def test_a_run_that_stops_ends_in_one_line(monkeypatch, capsys, tmp_path, error):
    def stopped(*args, **kwargs):
        raise error("Why, and what to do.")

    monkeypatch.setattr("training.run.trained", stopped)
    assert main(["frozenlake_tiny", "--output", str(tmp_path)]) == 1
    assert capsys.readouterr().err.strip().splitlines()[-1] == "stopped: Why, and what to do."
