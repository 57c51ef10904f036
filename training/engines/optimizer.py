"""AdamW with the two things that weights in few bits and long runs need: float32 masters, and no step on nonsense."""

from __future__ import annotations

import math
import statistics
import sys
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from training.config.update_config import AdamWConfig
from training.engines.host_memory import local_bytes
from training.errors import ExplodingGradientError, NonFiniteGradientError

FUSED_ON = ("cuda",)
"""Kinds of device on which one kernel takes a whole step of AdamW, without memory of its own that could be lacking."""
FACTOR = 100.0
"""How many times their median gradients are as large when they explode."""
_WINDOW, _MIN_NORMS, _TOLD_AT = 100, 10, 5
_REMEDY = "Lower the learning rate or lengthen its warm-up, raise --ppo.kl-coef, or look for rewards of another size."


class Optimizer:
    """AdamW over a model's weights, or over float32 copies of them (*masters*) where they have fewer bits.

    bfloat16 keeps 8 bits of a weight: at a learning rate of 1e-6 nearly every step is smaller than the gap to the next
    number and is rounded away. So gradients are added up and steps are taken in float32, and the weights are the
    masters, rounded. The masters are part of the state: rounded weights do not say where they came from.

    A step is taken whole or, whatever fails in it, not at all. Gradients are clipped, and AdamW's state is made, before
    any weight changes. From then on masters can be left half changed, for nothing reads them again; the weights are
    rounded to in place; and a fused kernel (`FUSED_ON`) cannot stop halfway. Only float32 weights elsewhere, which
    AdamW changes in one operation after another, are copied for as long as a step takes.

    A gradient that is infinite or NaN is left out; the last of `max_nonfinite_steps` in a row ends the run, with a
    message that says whose they are (`what`); so may ones that explode, see `training.engines.optimizer`.

    Source: Micikevicius et al., "Mixed Precision Training" (2018), section 3.1, for the masters.
    """

    def __init__(
        self,
        model: Any,
        *,
        learning_rate: float,
        adamw: AdamWConfig,
        max_grad_norm: float,
        max_nonfinite_steps: int,
        what: str,
        max_exploding_steps: int | None = None,
    ) -> None:
        trained = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
        exempt = _exempt_names(model, adamw)
        self._names = sorted(trained, key=exempt.__contains__)  # AdamW numbers weights group by group
        self._weights: list[Tensor] = [trained[name] for name in self._names]
        self._masters: list[Tensor | None] = [_master(weight) for weight in self._weights]
        self._stepped = [
            weight if master is None else master for weight, master in zip(self._weights, self._masters, strict=True)
        ]
        self._is_fused = all(weight.device.type in FUSED_ON for weight in self._stepped)
        num_decayed = len(self._names) - len(exempt & trained.keys())
        groups = [
            {"params": self._stepped[:num_decayed], "weight_decay": adamw.weight_decay},
            {"params": self._stepped[num_decayed:], "weight_decay": 0.0},
        ]
        self._adamw = torch.optim.AdamW(
            [group for group in groups if group["params"]],
            lr=learning_rate,
            betas=adamw.betas,
            eps=adamw.eps,
            fused=self._is_fused,
        )
        self._max_grad_norm, self._max_nonfinite_steps, self._what = max_grad_norm, max_nonfinite_steps, what
        self.num_nonfinite_in_a_row = 0
        self._watch = NormWatch(what, max_exploding_steps)

    def zero_grad(self) -> None:
        """Forgets all gradients."""
        for weight in (*self._weights, *self._stepped):
            weight.grad = None

    def backward(self, loss: Tensor) -> None:
        """Adds a loss's gradient to what the next step is taken by."""
        loss.backward()
        for weight, master in self._with_masters():
            if weight.grad is not None:
                _add(weight.grad, master)
                weight.grad = None

    def gradients(self, loss: Tensor) -> list[Tensor | None]:
        """Returns a loss's gradient, for `add`: of each weight, None of those that it does not depend on.

        Unlike `backward` it changes nothing, so that several threads may ask at a time.
        """
        return list(torch.autograd.grad(loss, self._weights, allow_unused=True))

    def add(self, gradients: Iterable[Tensor | None]) -> None:
        """Adds what `gradients` returned to what the next step is taken by."""
        for gradient, stepped in zip(gradients, self._stepped, strict=True):
            if gradient is not None:
                _add(gradient, stepped)

    def step(self) -> tuple[float, bool]:
        """Clips the gradient and takes a step, unless it is not finite; what fails leaves the weights as they were.

        Returns:
            (gradient norm before clipping, whether the step was taken).

        Raises:
            NonFiniteGradientError: At the last of `max_nonfinite_steps` such gradients in a row.
            ExplodingGradientError: At the last of `max_exploding_steps` that are far larger than before.
        """
        norm = self._clipped_norm()
        if not math.isfinite(norm):
            self._leave_out(norm)
            return norm, False
        self.num_nonfinite_in_a_row = 0
        self._watch.see(norm)
        before = [(weight, weight.detach().clone()) for weight in self._stepped_in_parts()]
        try:
            self._adamw.step()
            self._round()
        except BaseException:
            for weight, value in before:
                weight.data.copy_(value)
            raise
        return norm, True

    def _clipped_norm(self) -> float:
        """Returns the norm of the whole gradient, and clips it; where weights are sharded, all processes take part."""
        gradients = [weight.grad for weight in self._stepped if weight.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        norm = norm.full_tensor() if isinstance(norm, DTensor) else norm
        torch.nn.utils.clip_grads_with_norm_(self._stepped, self._max_grad_norm, norm)
        return float(norm)

    def idle_tensors(self) -> list[Tensor]:
        """Returns what only a step needs: masters, and AdamW's moments once there are any."""
        states = [value for state in self._adamw.state.values() for value in state.values()]
        moments = [value for value in states if isinstance(value, Tensor) and value.dim() > 0]
        return [*(master for _, master in self._with_masters()), *moments]

    def num_state_bytes(self) -> int:
        """Returns the bytes that this process has of masters and of AdamW's two moments, made yet or not."""
        masters = [master for _, master in self._with_masters()]
        return local_bytes([*masters, *self._stepped, *self._stepped])

    @property
    def learning_rate(self) -> float:
        """The rate of the last step, and of the next if none is set."""
        rate: float = self._adamw.param_groups[0]["lr"]
        return rate

    def set_learning_rate(self, learning_rate: float) -> None:
        """Sets the rate of the steps to come."""
        for group in self._adamw.param_groups:
            group["lr"] = learning_rate

    def state_dict(self) -> dict[str, Any]:
        """Returns AdamW's state, the masters (None for weights that are their own) and the count of bad gradients."""
        return {
            "adamw": self._adamw.state_dict(),
            "masters": [None if master is None else master.detach() for master in self._masters],
            "num_nonfinite_in_a_row": self.num_nonfinite_in_a_row,
            "norms": self._watch.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any], weights: Mapping[str, Tensor]) -> None:
        """Continues from what `state_dict` returned; the weights become what was stepped on there, rounded.

        That is float32 wherever it is kept, so weights of another type go on from it, too: masters become weights that
        need none here, and float32 weights become masters.

        Args:
            state: Of an optimiser of the same weights, of whatever type.
            weights: The model's state of the same time, by name.

        Raises:
            ValueError: If the state is of other weights.
        """
        saved = [
            weights.get(name) if master is None else master
            for name, master in zip(self._names, state["masters"], strict=False)
        ]
        stepped = [value for value in saved if value is not None]
        if len(state["masters"]) != len(self._names) or [x.shape for x in stepped] != [x.shape for x in self._stepped]:
            raise ValueError(
                f"The checkpoint's {self._what} has other weights to train than this one. Resume with the settings the "
                "run was started with."
            )
        for weight, value in zip(self._stepped, stepped, strict=True):
            weight.data.copy_(value)
        groups = [{**group, "fused": self._is_fused} for group in state["adamw"]["param_groups"]]
        self._adamw.load_state_dict({**state["adamw"], "param_groups": groups})
        for weight, own in zip(self._weights, self._stepped, strict=True):
            if own in self._adamw.state:
                self._own(self._adamw.state[own], weight.device)
        self.num_nonfinite_in_a_row = state["num_nonfinite_in_a_row"]
        self._watch.load_state_dict(state["norms"])
        self._round()

    def _own(self, state: dict[str, Any], device: torch.device) -> None:
        """Makes what was loaded of a weight this optimiser's own: a file may lie under it, which is to be let go."""
        for name, value in state.items():
            # A fused step takes its number from beside the weight, wherever the master waits
            state[name] = (value.to(device) if name == "step" and self._is_fused else value).clone()

    def like(self, name: str) -> Tensor | None:
        """Returns the weight that a tensor of `state_dict` is of, by its place there; None for those of no shape.

        Args:
            name: `masters/INDEX` or `adamw/state/INDEX/MOMENT`.
        """
        *_, index, what = ("", *name.split("/"))
        if index == "masters":
            return self._stepped[int(what)]
        return None if what == "step" else self._stepped[int(index)]

    def _with_masters(self) -> Iterable[tuple[Tensor, Tensor]]:
        for weight, master in zip(self._weights, self._masters, strict=True):
            if master is not None:
                yield weight, master

    def _stepped_in_parts(self) -> list[Tensor]:
        """Returns the weights that AdamW itself changes, in operations between which it can fail."""
        if self._is_fused:
            return []
        return [weight for weight, master in zip(self._weights, self._masters, strict=True) if master is None]

    @torch.no_grad()
    def _round(self) -> None:
        """Makes the weights what their masters are, in their own type."""
        for weight, master in self._with_masters():
            weight.copy_(master)

    def _leave_out(self, norm: float) -> None:
        """Counts a gradient that is not stepped on, and ends the run at the last one allowed."""
        self.num_nonfinite_in_a_row += 1
        if self.num_nonfinite_in_a_row >= self._max_nonfinite_steps:
            raise NonFiniteGradientError(
                f"Expected finite gradients; those of the {self._what} had norm {norm} in "
                f"{self.num_nonfinite_in_a_row} steps in a row. None was taken: the weights are finite, "
                "those of the last good step. "
                "Lower the learning rate or lengthen its warm-up, look for rewards that are infinite or NaN in "
                "metrics.jsonl, and use --dtype float32 if it was another."
            )


def _exempt_names(model: nn.Module, adamw: AdamWConfig) -> set[str]:
    """Returns the names of weights that do not decay."""
    return {
        f"{path}.{name}" if path else name
        for path, module in model.named_modules()
        for name, _ in module.named_parameters(recurse=False)
        if _kinds(module, name) & {*adamw.decay_exempt}
    }


def _kinds(module: nn.Module, name: str) -> set[str]:
    """Returns what `decay_exempt` calls a module's own weight, going by the names of its class and of the weight."""
    class_name = type(module).__name__.lower()
    kinds = {"norms": "norm" in class_name, "embeddings": "embedding" in class_name, "biases": name.endswith("bias")}
    return {kind for kind, is_it in kinds.items() if is_it}


def _add(gradient: Tensor, stepped: Tensor) -> None:
    """Adds a gradient to that of what is stepped on, in its type.

    The first one is copied: autograd hands out one tensor, or views of one, as gradients of several weights.
    """
    stepped.grad = gradient.to(stepped.dtype, copy=True) if stepped.grad is None else stepped.grad.add_(gradient)


def _master(weight: Tensor) -> Tensor | None:
    """Returns a float32 copy of a weight of fewer bits; None where the weight needs none."""
    if torch.finfo(weight.dtype).bits >= torch.finfo(torch.float32).bits:
        return None
    return weight.detach().float().requires_grad_(True)


class NormWatch:
    """Compares each gradient's norm with the median of those before, exploded ones and zeros left out.

    A single step does no harm, for gradients are clipped; many in a row are noise at the full learning rate. The fifth
    is told of. The last of `max_steps` ends the run.

    Args:
        what: Whose gradients they are.
        max_steps: Steps in a row; None never ends a run.
    """

    def __init__(self, what: str, max_steps: int | None) -> None:
        self._what, self._max_steps = what, max_steps
        self._norms: deque[float] = deque(maxlen=_WINDOW)
        self.num_in_a_row = 0

    def see(self, norm: float) -> None:
        """Takes note of a gradient that is about to be stepped on.

        Raises:
            ExplodingGradientError: At the last of `max_steps` in a row.
        """
        median = statistics.median(self._norms) if len(self._norms) >= _MIN_NORMS else None
        if median is None or norm <= FACTOR * median:
            self.num_in_a_row = 0
            if norm > 0:
                self._norms.append(norm)
            return
        self.num_in_a_row += 1
        told = (
            f"Gradients of the {self._what} were more than {FACTOR:g} times as large as before (norm {norm:.3g}, "
            f"median {median:.3g}) in {self.num_in_a_row} steps in a row."
        )
        if self._max_steps is not None and self.num_in_a_row >= self._max_steps:
            raise ExplodingGradientError(f"{told} {_REMEDY}")
        if self.num_in_a_row == _TOLD_AT:
            print(f"{told} {_REMEDY} --ppo.max-exploding-steps N ends a run for it.", file=sys.stderr)

    def state_dict(self) -> dict[str, Any]:
        """Returns what later steps are compared with."""
        return {"norms": list(self._norms), "num_in_a_row": self.num_in_a_row}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from what `state_dict` returned."""
        self._norms = deque(state["norms"], maxlen=_WINDOW)
        self.num_in_a_row = state["num_in_a_row"]
