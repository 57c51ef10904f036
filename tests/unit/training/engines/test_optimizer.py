"""Small steps are not lost to few bits, and no step is taken on gradients that are not finite."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.unit.second_device import DeviceTensor, moved, second_device
from training.config.update_config import AdamWConfig
from training.engines.host_memory import HostMemory
from training.engines.optimizer import Optimizer
from training.errors import NonFiniteGradientError


def optimizer_of(model: nn.Module, learning_rate: float = 1e-6, **adamw: Any) -> Optimizer:
    return Optimizer(
        model,
        learning_rate=learning_rate,
        adamw=AdamWConfig(**adamw),
        max_grad_norm=1e9,
        max_nonfinite_steps=3,
        what="policy",
    )


def layer(dtype: torch.dtype = torch.float32) -> nn.Linear:
    """Returns weights as large models have them, and the same rounded to another type."""
    generator = torch.Generator().manual_seed(0)
    made = nn.Linear(64, 64, bias=False)
    made.weight.data = (0.02 * torch.randn(64, 64, generator=generator)).bfloat16().float()
    return made.to(dtype)


def trained(model: nn.Linear, steps: range, optimizer: Optimizer | None = None) -> Tensor:
    """Returns the weights after steps along gradients that mostly agree with each other."""
    optimizer = optimizer or optimizer_of(model)
    for step in steps:
        generator = torch.Generator().manual_seed(step)
        pull = 1.0 + 0.5 * torch.randn(64, 64, generator=generator)
        optimizer.zero_grad()
        optimizer.backward((model.weight * pull.to(model.weight.dtype)).sum())
        optimizer.step()
    return model.weight.detach().clone()


def test_a_hundred_small_steps_change_bfloat16_weights_as_they_change_float32_ones():
    start = layer().weight.detach()
    exact, rounded = trained(layer(), range(100)), trained(layer(torch.bfloat16), range(100))
    assert 0.8e-4 < float((exact - start).abs().mean()) < 1e-4
    assert float((exact.bfloat16() == rounded).float().mean()) > 0.999
    changed = float((rounded.float() != start).float().mean())
    assert changed > 0.6, "most weights move by more than half a gap in 100 steps"

    naive = layer(torch.bfloat16)
    adamw = torch.optim.AdamW(naive.parameters(), lr=1e-6, betas=(0.9, 0.95), weight_decay=0.0)
    for _ in range(100):
        naive.weight.grad = torch.ones_like(naive.weight)
        adamw.step()
    assert float((naive.weight.float() != start).float().mean()) < 0.03, "what would happen without masters"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_one_tensor_as_the_gradient_of_two_weights_counts_for_each_once(dtype):
    model = nn.ParameterList([nn.Parameter(torch.zeros(3, dtype=dtype)) for _ in range(2)])
    optimizer = optimizer_of(model)
    optimizer.zero_grad()
    for _ in range(3):
        gradients = optimizer.gradients((model[0] + model[1]).sum())
        assert gradients[0].data_ptr() == gradients[1].data_ptr(), "autograd hands out one for both"
        optimizer.add(gradients)
    assert [weight.grad.tolist() for weight in optimizer._stepped] == [[3.0] * 3] * 2


def test_gradients_of_parts_add_up_in_float32():
    model = layer(torch.bfloat16)
    optimizer = optimizer_of(model)
    optimizer.zero_grad()
    for _ in range(300):  # in bfloat16 a sum of ones stands still at 256
        optimizer.backward(model.weight.sum())
    norm, is_taken = optimizer.step()
    assert is_taken
    assert norm == pytest.approx(300 * 64)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_state_goes_on_bit_by_bit(dtype):
    straight = layer(dtype)
    trained(straight, range(0, 7), first := optimizer_of(straight))
    stopped = copy.deepcopy(straight)
    resumed = optimizer_of(stopped)  # its masters would start from rounded weights
    resumed.load_state_dict(copy.deepcopy(first.state_dict()), stopped.state_dict())
    for step in range(7, 60, 10):
        assert torch.equal(
            trained(straight, range(step, step + 10), first), trained(stopped, range(step, step + 10), resumed)
        )
    assert (first.state_dict()["masters"] == [None]) == (dtype == torch.float32)


def stepped(model: nn.Linear, optimizer: Optimizer) -> Tensor:
    """Returns what steps are taken on: the master, or the weight itself."""
    (master,) = optimizer.state_dict()["masters"]
    return model.weight.detach() if master is None else master


@pytest.mark.parametrize(
    ("written", "read"), [(torch.bfloat16, torch.float32), (torch.float32, torch.bfloat16)], ids=str
)
def test_a_state_goes_on_in_weights_of_another_type_without_losing_a_bit(written, read):
    model, other = layer(written), layer(read)
    trained(model, range(20), first := optimizer_of(model))
    weights, state = copy.deepcopy((model.state_dict(), first.state_dict()))
    other.load_state_dict(weights)
    resumed = optimizer_of(other)
    resumed.load_state_dict(state, weights)
    exact = stepped(model, first)
    assert not torch.equal(exact, exact.bfloat16().float()), "float32 says more than bfloat16 can"
    assert torch.equal(stepped(other, resumed), exact)
    assert torch.equal(other.weight, exact.to(read))
    for moment in ("step", "exp_avg", "exp_avg_sq"):
        assert torch.equal(*(each.state_dict()["adamw"]["state"][0][moment] for each in (first, resumed)))
    trained(other, range(20, 21), resumed)
    assert not torch.equal(stepped(other, resumed), exact)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_state_of_other_weights_is_refused(dtype):
    two = nn.Sequential(layer(dtype), layer(dtype))
    state = optimizer_of(two).state_dict()
    with pytest.raises(ValueError, match="policy has other trained weights"):
        optimizer_of(layer()).load_state_dict(state, two.state_dict())
    small = nn.Linear(2, 2, bias=False).to(dtype)
    with pytest.raises(ValueError, match="other trained weights"):
        optimizer_of(layer()).load_state_dict(optimizer_of(small).state_dict(), small.state_dict())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_gradients_that_are_not_finite_are_left_out_and_end_the_run_at_the_third_in_a_row(dtype, value):
    model = layer(dtype)
    optimizer = optimizer_of(model, learning_rate=0.1)

    def step(factor: float) -> tuple[float, bool]:
        optimizer.zero_grad()
        optimizer.backward(factor * model.weight.sum())
        return optimizer.step()

    before = model.weight.detach().clone()
    assert [step(value)[1], step(value)[1]] == [False, False]
    assert torch.equal(model.weight, before)
    assert step(1.0)[1], "a good one starts the count anew"
    assert not torch.equal(model.weight, before)
    after = model.weight.detach().clone()
    step(value)
    step(value)
    with pytest.raises(NonFiniteGradientError, match=r"of the policy had norm .* in 3 consecutive steps"):
        step(value)
    assert torch.equal(model.weight, after)
    assert all(torch.isfinite(each).all() for each in optimizer.state_dict()["adamw"]["state"][0].values())


class Halfway(Exception):
    pass


def fail_halfway(monkeypatch, optimizer):
    """Lets AdamW change every weight and then fail, as where there is no memory for the rest of a step."""
    whole = optimizer._adamw.step

    def failing():
        whole()
        raise Halfway

    monkeypatch.setattr(optimizer._adamw, "step", failing)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_step_that_fails_halfway_is_not_taken(dtype, monkeypatch):
    model = layer(dtype)
    optimizer = optimizer_of(model, learning_rate=0.1)
    before = trained(model, range(2), optimizer)
    fail_halfway(monkeypatch, optimizer)
    with pytest.raises(Halfway):
        trained(model, range(2, 3), optimizer)
    assert torch.equal(model.weight, before)


def copies_of(monkeypatch, model, optimizer, factor=1.0):
    """Returns how many tensors one step copies."""
    copied, clone = [], Tensor.clone
    monkeypatch.setattr(Tensor, "clone", lambda self, **rest: copied.append(self) or clone(self, **rest))
    optimizer.zero_grad()
    optimizer.backward(factor * model.weight.sum())
    optimizer.step()
    monkeypatch.undo()
    return len(copied)


def test_weights_are_copied_only_where_a_step_could_leave_half_of_them_changed(monkeypatch):
    model = layer()
    assert copies_of(monkeypatch, model, optimizer_of(model)) == 1
    assert copies_of(monkeypatch, model, optimizer_of(model), float("nan")) == 0, "no step is taken"
    rounded = layer(torch.bfloat16)
    assert copies_of(monkeypatch, rounded, optimizer_of(rounded)) == 0, "masters are stepped, not the weights"
    monkeypatch.setattr("training.engines.optimizer.FUSED_ON", ("cpu",))
    fused = optimizer_of(model)
    monkeypatch.undo()
    assert copies_of(monkeypatch, model, fused) == 0, "one kernel takes the whole step"


def test_a_fused_step_is_the_same_step_and_goes_on_from_any_other(monkeypatch):
    straight, stopped = layer(), layer()
    trained(straight, range(0, 5), first := optimizer_of(straight, 1e-3))
    trained(stopped, range(0, 5), other := optimizer_of(stopped, 1e-3))
    monkeypatch.setattr("training.engines.optimizer.FUSED_ON", ("cpu",))
    fused = optimizer_of(stopped, 1e-3)
    fused.load_state_dict(copy.deepcopy(other.state_dict()), stopped.state_dict())
    assert [group["fused"] for group in fused._adamw.param_groups] == [True]
    assert torch.allclose(trained(straight, range(5, 10), first), trained(stopped, range(5, 10), fused), atol=1e-7)
    other.load_state_dict(copy.deepcopy(fused.state_dict()), stopped.state_dict())
    assert [group["fused"] for group in other._adamw.param_groups] == [False]


def test_a_loaded_state_is_the_optimisers_own_and_steps_count_beside_the_weights_while_masters_wait():
    with second_device():
        model = layer(torch.bfloat16)
        trained(model, range(2), written := optimizer_of(model))
        state, weights = copy.deepcopy((written.state_dict(), model.state_dict()))
        resumed = optimizer_of(moved(layer(torch.bfloat16)))
        HostMemory().put_away(resumed.idle_tensors())
        resumed._is_fused = True  # as it is on a GPU: no fused kernel runs on this device
        resumed.load_state_dict(state, weights)
        (loaded,) = resumed._adamw.state.values()
        on_device = {name: isinstance(value, DeviceTensor) for name, value in loaded.items()}
    assert on_device == {"step": True, "exp_avg": False, "exp_avg_sq": False}
    read = state["adamw"]["state"][0]
    assert torch.equal(loaded["exp_avg"], read["exp_avg"])
    assert loaded["exp_avg"].data_ptr() != read["exp_avg"].data_ptr()


def step(optimizer: Optimizer, model: nn.Module, gradient: float = 1.0) -> None:
    """Takes a step along the same gradient for each number; along 0 only the decay changes anything."""
    optimizer.zero_grad()
    optimizer.backward(gradient * sum(weight.sum() for weight in model.parameters()))
    optimizer.step()


@pytest.mark.parametrize(
    "adamw", [{"betas": (0.9, 0.95)}, {"betas": (0.5, 0.999)}, {"eps": 0.5}, {"weight_decay": 0.3}]
)
def test_it_steps_as_torchs_adamw_does_with_the_same_settings(adamw):
    ours, torchs = layer(), layer()
    optimizer = optimizer_of(ours, learning_rate=1e-2, **adamw)
    plain = torch.optim.AdamW(
        torchs.parameters(), lr=1e-2, **{"betas": (0.9, 0.95), "weight_decay": 0.0, "eps": 1e-8, **adamw}
    )
    for factor in (1.0, -3.0, 0.1):
        optimizer.zero_grad()
        optimizer.backward(factor * ours.weight.square().sum())
        optimizer.step()
        plain.zero_grad()
        (factor * torchs.weight.square().sum()).backward()
        plain.step()
    assert torch.equal(ours.weight, torchs.weight)


class Kinds(nn.Module):
    """A model with a weight of each kind, all ones; of the two names of the tied one the first counts."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(4, 4)
        self.norm1 = nn.LayerNorm(4)
        self.up = nn.Linear(4, 4)
        self.head = nn.Linear(4, 4, bias=False)
        self.head.weight = self.words.weight
        for weight in self.parameters():
            nn.init.ones_(weight)


NORMS, BIASES, EMBEDDINGS = {"norm1.weight", "norm1.bias"}, {"norm1.bias", "up.bias"}, {"words.weight"}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("exempt", "kept"),
    [
        ((), set()),
        (("norms",), NORMS),
        (("biases",), BIASES),
        (("embeddings",), EMBEDDINGS),
        (("biases", "norms", "embeddings"), NORMS | BIASES | EMBEDDINGS),
    ],
)
def test_weights_that_are_exempt_do_not_decay(exempt, kept, dtype):
    model = Kinds().to(dtype)
    step(optimizer_of(model, learning_rate=0.5, weight_decay=0.5, decay_exempt=exempt), model, gradient=0.0)
    assert {name for name, weight in model.named_parameters() if (weight == 1).all()} == kept
    assert {weight.detach().mean().item() for name, weight in model.named_parameters() if name not in kept} == {0.75}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_state_of_exempt_weights_goes_on_bit_by_bit(dtype):
    def made(model: nn.Module) -> Optimizer:
        return optimizer_of(model, learning_rate=0.1, weight_decay=0.1, decay_exempt=("norms", "embeddings"))

    straight, stopped = Kinds().to(dtype), Kinds().to(dtype)
    optimizer, before = made(straight), made(stopped)
    for _ in range(2):
        step(optimizer, straight)
        step(before, stopped)
    state, weights = copy.deepcopy(before.state_dict()), copy.deepcopy(stopped.state_dict())
    resumed = Kinds().to(dtype)
    after = made(resumed)
    after.load_state_dict(state, weights)
    step(optimizer, straight)
    step(after, resumed)
    assert all(map(torch.equal, straight.parameters(), resumed.parameters()))
    shapes = [tuple(moments["exp_avg"].shape) for moments in state["adamw"]["state"].values()]
    assert shapes == [tuple(after.like(f"adamw/state/{index}/exp_avg").shape) for index in range(len(shapes))]


def test_a_vision_language_models_matrices_decay_when_all_else_is_exempt(tiny):
    model = copy.deepcopy(tiny[0])
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    exempt = ("norms", "biases", "embeddings")
    step(optimizer_of(model, learning_rate=0.1, weight_decay=0.1, decay_exempt=exempt), model, gradient=0.0)
    moved = {name for name, weight in model.named_parameters() if not torch.equal(weight, before[name])}
    matrices = {name for name, weight in before.items() if weight.dim() > 1}
    assert matrices - moved == {"model.visual.pos_embed.weight", "model.language_model.embed_tokens.weight"}
    assert moved <= matrices
