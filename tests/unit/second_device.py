"""A second device without a GPU: its tensors hold real numbers, and are refused together with those of the CPU.

A model of torch's own `meta` device computes no numbers, so that nothing which asks for one (a gradient's norm, a
metric) can run on it. Here tensors call themselves `meta`, carry their numbers with them, and an operation that mixes
them with tensors of the CPU raises as CUDA does. What CUDA lets pass, passes: copies from device to device, numbers
without dimensions, indices on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing

DEVICE = torch.device("meta")
ATEN = torch.ops.aten
_COPIES = {ATEN._to_copy.default, ATEN.copy_.default, ATEN.lift_fresh.default}
_INDEXING = {ATEN.index.Tensor, ATEN.index_put.default, ATEN.index_put_.default, ATEN._index_put_impl_.default}
_MATH_ATTENTION = 0
"""What `_fused_sdp_choice` answers for attention in plain operations: the fused kernels are the CPU's own."""


class DeviceTensor(torch.Tensor):
    """A tensor of the second device."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> DeviceTensor:
        made: DeviceTensor = torch.Tensor._make_wrapper_subclass(
            cls,
            held.shape,
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=DEVICE,
        )
        made.held = held
        return made

    def __repr__(self) -> str:
        return f"DeviceTensor({self.held})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _compute(func, args, kwargs or {})


def _compute(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Runs an operation on the numbers held, and gives its results the device that torch would."""
    if func is ATEN._fused_sdp_choice.default:
        return _MATH_ATTENTION
    tensors = list(_tensors_in((args, kwargs)))
    here = [each for each in tensors if isinstance(each, DeviceTensor)]
    target = kwargs.get("device")
    is_here = target == DEVICE if target is not None else bool(here)
    if func is ATEN.copy_.default:
        is_here = isinstance(args[0], DeviceTensor)
    if here and func not in _COPIES:
        _check(func, args, tensors)
    if target is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    result = func(*_held(args), **_held(kwargs))
    if not is_here:
        return result
    moved = _moved_here(result)
    return return_and_correct_aliasing(func, args, kwargs, moved) if here else moved


def _tensors_in(nested: Any) -> Iterator[torch.Tensor]:
    if isinstance(nested, torch.Tensor):
        yield nested
    elif isinstance(nested, list | tuple | dict):
        for each in nested.values() if isinstance(nested, dict) else nested:
            yield from _tensors_in(each)


def _held(nested: Any) -> Any:
    """Returns the same with the numbers held in place of the second device's tensors."""
    if isinstance(nested, DeviceTensor):
        return nested.held
    if isinstance(nested, list | tuple):
        return type(nested)([_held(each) for each in nested])
    if isinstance(nested, dict):
        return {key: _held(each) for key, each in nested.items()}
    return nested


def _moved_here(result: Any) -> Any:
    if isinstance(result, torch.Tensor):
        return DeviceTensor(result)
    return type(result)([_moved_here(each) for each in result]) if isinstance(result, list | tuple) else result


def _check(func: Any, args: Any, tensors: list[torch.Tensor]) -> None:
    """Raises as CUDA does where tensors of both devices come together, and where numbers are missing."""
    if any(each.device == DEVICE and not isinstance(each, DeviceTensor) for each in tensors):
        raise NotImplementedError(f"{func}: a tensor of `meta` that torch made by itself, without numbers in it.")
    if func in _INDEXING and isinstance(args[0], DeviceTensor):
        indices = {id(each) for each in args[1] if each is not None}
        tensors = [each for each in tensors if id(each) not in indices]
    strange = [each for each in tensors if not isinstance(each, DeviceTensor) and each.dim() > 0]
    if strange:
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, {DEVICE} and cpu! "
            f"({func}, shapes {[tuple(each.shape) for each in tensors]})"
        )


class _MakesTensors(TorchDispatchMode):
    """Gives what is made on the second device (`torch.zeros(..., device=...)`) its numbers."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _compute(func, args, kwargs or {})


class _CopiesData(TorchFunctionMode):
    """Makes `torch.tensor(data, device=...)` keep its data, which torch throws away for `meta`, and lists readable."""

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.tensor and str(kwargs.get("device")) == str(DEVICE):
            return torch.tensor(*_held(args), **{**kwargs, "device": torch.device("cpu")}).to(DEVICE)
        if func is torch.Tensor.tolist and isinstance(args[0], DeviceTensor):
            return args[0].held.tolist()
        return func(*args, **kwargs)


def moved(model: torch.nn.Module) -> Any:
    """Returns a model after moving it to the second device, inside the block of `second_device`.

    `Module.to` keeps a weight that two modules share (input and output embeddings) one tensor between CPU and CUDA; to
    tensors of another class it gives either module one of its own, each with a part of the gradient.
    """
    places: dict[torch.Tensor, list[tuple[torch.nn.Module, str]]] = {}
    for module in model.modules():
        for name, weight in module.named_parameters(recurse=False):
            places.setdefault(weight, []).append((module, name))
    model.to(DEVICE)
    for (first, first_name), *others in places.values():
        for module, name in others:
            setattr(module, name, getattr(first, first_name))
    return model


@contextmanager
def second_device() -> Iterator[torch.device]:
    """Yields a device that tensors and models can be moved to and computed on within the block."""
    with _CopiesData(), _MakesTensors():
        yield DEVICE
