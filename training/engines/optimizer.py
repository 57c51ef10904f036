"""AdamW with float32 master weights, which skips steps with non-finite gradients."""

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
"""Device types with a fused AdamW kernel, which needs no extra memory and so cannot fail midway."""
FACTOR = 100.0
"""Ratio to the median norm above which a gradient counts as exploding."""
_WINDOW, _MIN_NORMS, _TOLD_AT = 100, 10, 5
_REMEDY = "Lower the learning rate or lengthen its warmup, raise --ppo.kl-coef, or check the scale of rewards."


class Optimizer:
    """AdamW over a model's weights, or over float32 copies (*masters*) of weights in lower precision.

    bfloat16 has 8 significant bits: at a learning rate of 1e-6, nearly every step is smaller than the gap to the next
    number and would be rounded away. So gradients are accumulated and steps are taken in float32, and the weights are
    the rounded masters. Masters are part of the state, because they cannot be recovered from rounded weights.

    A step succeeds entirely or, on any failure, leaves the weights unchanged. Gradients are clipped and AdamW's state
    is allocated before any weight changes. Afterwards, masters may be left half updated, because nothing reads them
    again; rounding to the weights works in place; and a fused kernel (`FUSED_ON`) cannot stop midway. Only float32
    weights on other devices, which AdamW updates in several operations, are backed up during a step.

    An infinite or NaN gradient is skipped; after `max_nonfinite_steps` in a row the run ends, with an error that
    names the model (`what`). Exploding gradients may also end the run, see `NormWatch`.

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
        """Clears all gradients."""
        for weight in (*self._weights, *self._stepped):
            weight.grad = None

    def backward(self, loss: Tensor) -> None:
        """Accumulates the gradient of a loss for the next step."""
        loss.backward()
        for weight, master in self._with_masters():
            if weight.grad is not None:
                _add(weight.grad, master)
                weight.grad = None

    def gradients(self, loss: Tensor) -> list[Tensor | None]:
        """Returns the gradients of a loss, for `add`; None for weights that it does not depend on.

        Unlike `backward` it has no side effects, so that several threads may call it concurrently.
        """
        return list(torch.autograd.grad(loss, self._weights, allow_unused=True))

    def add(self, gradients: Iterable[Tensor | None]) -> None:
        """Accumulates gradients from `gradients` for the next step."""
        for gradient, stepped in zip(gradients, self._stepped, strict=True):
            if gradient is not None:
                _add(gradient, stepped)

    def step(self) -> tuple[float, bool]:
        """Clips the gradient and takes a step if it is finite; a failure leaves the weights unchanged.

        Returns:
            (gradient norm before clipping, whether the step was taken).

        Raises:
            NonFiniteGradientError: After `max_nonfinite_steps` consecutive non-finite gradients.
            ExplodingGradientError: After `max_exploding_steps` consecutive exploding gradients.
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
        """Clips the gradient and returns its norm before clipping; a collective operation if weights are sharded."""
        gradients = [weight.grad for weight in self._stepped if weight.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        norm = norm.full_tensor() if isinstance(norm, DTensor) else norm
        torch.nn.utils.clip_grads_with_norm_(self._stepped, self._max_grad_norm, norm)
        return float(norm)

    def idle_tensors(self) -> list[Tensor]:
        """Returns tensors needed only during a step: masters, and AdamW's moments after the first step."""
        states = [value for state in self._adamw.state.values() for value in state.values()]
        moments = [value for value in states if isinstance(value, Tensor) and value.dim() > 0]
        return [*(master for _, master in self._with_masters()), *moments]

    def num_state_bytes(self) -> int:
        """Returns this process's bytes of masters and of AdamW's two moments, allocated or not."""
        masters = [master for _, master in self._with_masters()]
        return local_bytes([*masters, *self._stepped, *self._stepped])

    @property
    def learning_rate(self) -> float:
        """The current learning rate."""
        rate: float = self._adamw.param_groups[0]["lr"]
        return rate

    def set_learning_rate(self, learning_rate: float) -> None:
        """Sets the learning rate of future steps."""
        for group in self._adamw.param_groups:
            group["lr"] = learning_rate

    def state_dict(self) -> dict[str, Any]:
        """Returns the state of AdamW, the masters (None for float32 weights), and the statistics of bad gradients."""
        return {
            "adamw": self._adamw.state_dict(),
            "masters": [None if master is None else master.detach() for master in self._masters],
            "num_nonfinite_in_a_row": self.num_nonfinite_in_a_row,
            "norms": self._watch.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any], weights: Mapping[str, Tensor]) -> None:
        """Restores a state; weights are set to the saved float32 values, rounded to their type.

        The data type of the weights may differ: masters can initialize float32 weights, and float32 weights can
        initialize masters.

        Args:
            state: State of an optimizer of the same weights, of any data type.
            weights: State of the model at the same time, by name.

        Raises:
            ValueError: If the state belongs to other weights.
        """
        saved = [
            weights.get(name) if master is None else master
            for name, master in zip(self._names, state["masters"], strict=False)
        ]
        stepped = [value for value in saved if value is not None]
        if len(state["masters"]) != len(self._names) or [x.shape for x in stepped] != [x.shape for x in self._stepped]:
            raise ValueError(
                f"The checkpoint's {self._what} has other trained weights than this one. Resume with the settings "
                "with which the run was started."
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
        """Copies the loaded state of a weight, which may be memory-mapped from a file that must be closed."""
        for name, value in state.items():
            # A fused step needs the step count on the weight's device, even while masters are offloaded
            state[name] = (value.to(device) if name == "step" and self._is_fused else value).clone()

    def like(self, name: str) -> Tensor | None:
        """Returns the weight that corresponds to a tensor of `state_dict`; None for scalars.

        Args:
            name: Path in the state: `masters/INDEX` or `adamw/state/INDEX/MOMENT`.
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
        """Returns the weights that AdamW updates directly, in several operations between which it can fail."""
        if self._is_fused:
            return []
        return [weight for weight, master in zip(self._weights, self._masters, strict=True) if master is None]

    @torch.no_grad()
    def _round(self) -> None:
        """Sets the weights to their rounded masters."""
        for weight, master in self._with_masters():
            weight.copy_(master)

    def _leave_out(self, norm: float) -> None:
        """Counts a skipped gradient, and raises after `max_nonfinite_steps` in a row."""
        self.num_nonfinite_in_a_row += 1
        if self.num_nonfinite_in_a_row >= self._max_nonfinite_steps:
            raise NonFiniteGradientError(
                f"Expected finite gradients; those of the {self._what} had norm {norm} in "
                f"{self.num_nonfinite_in_a_row} consecutive steps, which were skipped. The weights are finite, those "
                "of the last good step. Lower the learning rate or lengthen its warmup, look for infinite or NaN "
                "rewards in metrics.jsonl, or use --dtype float32."
            )


def _exempt_names(model: nn.Module, adamw: AdamWConfig) -> set[str]:
    """Returns the names of weights without weight decay."""
    return {
        f"{path}.{name}" if path else name
        for path, module in model.named_modules()
        for name, _ in module.named_parameters(recurse=False)
        if _kinds(module, name) & {*adamw.decay_exempt}
    }


def _kinds(module: nn.Module, name: str) -> set[str]:
    """Returns the `decay_exempt` kinds of a module's weight, derived from the names of its class and of the weight."""
    class_name = type(module).__name__.lower()
    kinds = {"norms": "norm" in class_name, "embeddings": "embedding" in class_name, "biases": name.endswith("bias")}
    return {kind for kind, is_it in kinds.items() if is_it}


def _add(gradient: Tensor, stepped: Tensor) -> None:
    """Accumulates a gradient in the data type of the master or weight.

    The first gradient is copied, because autograd may return the same tensor, or views of it, for several weights.
    """
    stepped.grad = gradient.to(stepped.dtype, copy=True) if stepped.grad is None else stepped.grad.add_(gradient)


def _master(weight: Tensor) -> Tensor | None:
    """Returns a float32 copy of a weight in lower precision; None for a float32 weight."""
    if torch.finfo(weight.dtype).bits >= torch.finfo(torch.float32).bits:
        return None
    return weight.detach().float().requires_grad_(True)


class NormWatch:
    """Compares each gradient norm with the median of previous norms, except exploding ones and zeros.

    A single exploding gradient is harmless because of clipping; many in a row are noise at the full learning rate.
    The fifth in a row is reported; after `max_steps` in a row the run ends.

    Args:
        what: Name of the model in messages.
        max_steps: Number of consecutive steps after which the run ends; None for never.
    """

    def __init__(self, what: str, max_steps: int | None) -> None:
        self._what, self._max_steps = what, max_steps
        self._norms: deque[float] = deque(maxlen=_WINDOW)
        self.num_in_a_row = 0

    def see(self, norm: float) -> None:
        """Records the norm of a gradient before its step.

        Raises:
            ExplodingGradientError: After `max_steps` consecutive exploding gradients.
        """
        median = statistics.median(self._norms) if len(self._norms) >= _MIN_NORMS else None
        if median is None or norm <= FACTOR * median:
            self.num_in_a_row = 0
            if norm > 0:
                self._norms.append(norm)
            return
        self.num_in_a_row += 1
        message = (
            f"Gradients of the {self._what} were more than {FACTOR:g} times larger than before (norm {norm:.3g}, "
            f"median {median:.3g}) in {self.num_in_a_row} steps in a row."
        )
        if self._max_steps is not None and self.num_in_a_row >= self._max_steps:
            raise ExplodingGradientError(f"{message} {_REMEDY}")
        if self.num_in_a_row == _TOLD_AT:
            print(f"{message} {_REMEDY} To end the run: --ppo.max-exploding-steps N.", file=sys.stderr)

    def state_dict(self) -> dict[str, Any]:
        """Returns the recorded norms and the count of exploding gradients."""
        return {"norms": list(self._norms), "num_in_a_row": self.num_in_a_row}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a state."""
        self._norms = deque(state["norms"], maxlen=_WINDOW)
        self.num_in_a_row = state["num_in_a_row"]
