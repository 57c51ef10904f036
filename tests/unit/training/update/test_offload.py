"""Reference and optimisers wait in the host's memory, on a device that refuses tensors of the host."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import pytest
import torch

from tests.unit.second_device import DEVICE, DeviceTensor, moved, second_device
from tests.unit.training.batches import run_config
from training.config.update_config import MemoryConfig, PPOConfig
from training.engines.host_memory import HostMemory, in_place_of
from training.update.learner import Learner

OFFLOADED = MemoryConfig(offload_reference=True, offload_optimizer=True)
PPO = PPOConfig(num_minibatches=2, warmup_iterations=0, learning_rate=1e-4, kl_coef=0.01)


@pytest.fixture
def played(played_by_tiny):
    return played_by_tiny(num_rows=4)


def learner_of(model, encoder, memory):
    return Learner(model, encoder.suppressed_ids(), run_config(num_groups=2, memory=memory, ppo=PPO))


def updated_twice(learner, batch):
    for iteration in range(2):
        outputs = learner.model_outputs(batch)
        credit = replace(learner.config.algorithm.credit(batch, outputs), turn_end_returns_BK=None)
        metrics = learner.update(batch, outputs, credit, iteration=iteration)
    return metrics | {"kl": outputs.ref_kl}


def where(tensors):
    return {isinstance(each, DeviceTensor) for each in tensors}


def places(learner):
    """Returns whether weights and idle tensors are on the device, by whose they are."""
    return {
        "policy": where(learner.policy.parameters()),
        "critic": where(learner.critic.parameters()),
        "reference": where(learner.reference.parameters()),
        "policy optimizer": where(learner.policy_optimizer.idle_tensors()),
        "critic optimizer": where(learner.critic_optimizer.idle_tensors()),
    }


@pytest.mark.soak
def test_what_is_idle_is_on_the_host_and_an_update_is_the_same(played, monkeypatch):
    model, encoder, batch = played
    model = model.bfloat16()  # with masters, which wait too
    seen = {}

    def watched(name):
        real = getattr(Learner, name)

        def watching(self, *args):
            if self.config.memory == OFFLOADED:
                seen[name] = places(self)
            return real(self, *args)

        monkeypatch.setattr(Learner, name, watching)

    for name in ("_reference_logprobs", "_policy_step", "_critic_step"):
        watched(name)
    with second_device():
        expected = updated_twice(learner_of(moved(copy.deepcopy(model)), encoder, MemoryConfig()), batch)
        learner = learner_of(moved(copy.deepcopy(model)), encoder, OFFLOADED)
        metrics = updated_twice(learner, batch)
        idle = places(learner)
        again = learner_of(moved(copy.deepcopy(model)), encoder, OFFLOADED)
        again.load_state_dict(copy.deepcopy(learner.state_dict()))
        assert places(again) == idle
    on_host = {"reference": {False}, "policy optimizer": {False}, "critic optimizer": {False}}
    assert idle == {"policy": {True}, "critic": {True}} | on_host
    assert seen["_reference_logprobs"] == idle | {"reference": {True}}
    assert seen["_policy_step"] == idle | {"policy optimizer": {True}}
    assert seen["_critic_step"] == idle | {"critic optimizer": {True}}
    assert metrics.keys() == expected.keys()
    for name, value in metrics.items():
        assert math.isfinite(value) and value == pytest.approx(expected[name], rel=1e-5, abs=1e-6), name


@pytest.mark.soak
def test_a_tower_that_is_shared_stays_where_the_policy_is(played):
    model, encoder, batch = played
    with second_device():
        learner = learner_of(moved(model), encoder, replace(OFFLOADED, freeze_vision_tower=True))
        updated_twice(learner, batch)
        assert where(learner.policy.parameters()) == {True}
        assert where(learner.reference.model.visual.parameters()) == {True}
        assert where(learner.reference.model.language_model.parameters()) == {False}


def test_one_model_takes_anothers_place_and_gives_it_back():
    with second_device():
        absent, present = moved(torch.nn.Linear(2, 2)), torch.nn.Linear(2, 2)
        before = {name: value.to("cpu") for name, value in absent.state_dict().items()}
        absent.device = torch.device("meta")
        with pytest.raises(KeyError), in_place_of(absent, present):
            assert where(absent.parameters()) == {False} and where(present.parameters()) == {True}
            raise KeyError
        assert where(absent.parameters()) == {True} and where(present.parameters()) == {False}
        assert all(torch.equal(value.to("cpu"), before[name]) for name, value in absent.state_dict().items())


def test_on_a_cpu_nothing_is_copied(played):
    model, encoder, _ = played
    learner = learner_of(model, encoder, OFFLOADED)
    before = [weight.data_ptr() for weight in learner.reference.parameters()]
    learner._put_away()
    assert [weight.data_ptr() for weight in learner.reference.parameters()] == before
    assert torch.equal(next(learner.reference.parameters()), next(learner.policy.parameters()))


def test_what_comes_back_to_the_host_takes_the_place_it_had():
    host = HostMemory()
    weight, moment = torch.nn.Parameter(torch.arange(4.0)), torch.arange(4.0)
    shown = [weight, moment, weight]
    places = [each.data_ptr() for each in shown]
    with second_device():
        for number in (1, 2):
            with host.at_hand(lambda: shown, DEVICE), torch.no_grad():
                assert where(shown) == {True}
                weight.add_(1.0)
                moment.mul_(2.0)
            assert where(shown) == {False}
            assert [each.data_ptr() for each in shown] == places
            assert torch.equal(weight.detach(), torch.arange(4.0) + number)
            assert torch.equal(moment, torch.arange(4.0) * 2**number)
        assert isinstance(weight, torch.nn.Parameter) and weight.requires_grad and not moment.requires_grad


def test_what_is_new_on_the_device_is_put_away_too():
    host = HostMemory()
    with second_device():
        state = []
        with host.at_hand(lambda: state, DEVICE):
            state.append(moved(torch.nn.Linear(2, 2)).weight)
        assert where(state) == {False}


def test_memory_that_runs_out_on_the_way_to_the_device_leaves_all_on_the_host(monkeypatch):
    host, tensors = HostMemory(), [torch.ones(2), torch.ones(2), torch.ones(2)]
    real, fetched = torch.Tensor.to, []

    def to(self, *args, **kwargs):
        if args[:1] == (DEVICE,):
            fetched.append(self)
            if len(fetched) == 3:
                raise torch.cuda.OutOfMemoryError
        return real(self, *args, **kwargs)

    with second_device():
        monkeypatch.setattr(torch.Tensor, "to", to)
        with pytest.raises(torch.cuda.OutOfMemoryError), host.at_hand(lambda: tensors, DEVICE):
            pytest.fail("nothing is done with half of them")
        assert len(fetched) == 3 and where(tensors) == {False}
