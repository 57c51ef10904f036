"""A forward and a backward pass that computes shapes only, and counts the bytes that it would hold.

The trainer's own modules run here on weights of torch's meta device, which have shapes and no memory. So what a pass
keeps for its backward pass is not estimated from a formula that some model does not follow; it is counted, in
whatever version of transformers is installed, with whatever family, chunks and checkpoints the trainer has.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

META, CPU = torch.device("meta"), torch.device("cpu")


@dataclass(frozen=True, kw_only=True)
class PassBytes:
    """What a pass holds beside weights and their gradients, as it goes on.

    Attributes:
        kept: Bytes when the forward pass is over: what the backward pass needs.
        peaks: Most bytes at a time before each weight has its gradient, in the order in which they get it.
        num_gradients: Elements of gradients that are there by then.
    """

    kept: float
    peaks: tuple[float, ...]
    num_gradients: tuple[int, ...]

    def most(self, bytes_per_gradient: float = 0.0) -> float:
        """Returns the most bytes at a time, with gradients that come into being of so many bytes an element."""
        pairs = zip(self.peaks, self.num_gradients, strict=True)
        return max(peak + bytes_per_gradient * number for peak, number in pairs)

    def towards(self, other: PassBytes, steps: float) -> PassBytes:
        """Returns what a pass holds that is as many steps further than this one as `other` is one step further."""

        def extended(here: float, there: float) -> float:
            return max(0.0, here + steps * (there - here))

        return PassBytes(
            kept=extended(self.kept, other.kept),
            peaks=tuple(map(extended, self.peaks, other.peaks)),
            num_gradients=self.num_gradients,
        )


def training_pass(module: nn.Module, run: Callable[[], Tensor]) -> PassBytes:
    """Returns what a forward and a backward pass hold.

    Args:
        module: Its weights are on the meta device.
        run: Gives the loss, or a tensor whose sum is one.
    """
    counter = _Counter(module)
    peaks: list[float] = []
    num_gradients, num_done = [], 0

    def note(weight: Tensor) -> None:
        nonlocal num_done
        weight.grad = None  # counted apart, for they may be kept in another type, or by other GPUs
        peaks.append(counter.most_since())
        num_gradients.append(num_done)
        num_done += weight.numel()

    hooks = [each.register_post_accumulate_grad_hook(note) for each in module.parameters() if each.requires_grad]
    try:
        with _fused_attention(), counter:
            result = run()
            kept = counter.live
            result.sum().backward()
    finally:
        for hook in hooks:
            hook.remove()
    peaks.append(counter.most_since())
    return PassBytes(kept=kept, peaks=tuple(peaks), num_gradients=(*num_gradients, num_done))


def evaluation_pass(module: nn.Module, run: Callable[[], Any]) -> PassBytes:
    """Returns what a forward pass alone holds; for the arguments see `training_pass`."""
    counter = _Counter(module)
    with torch.no_grad(), _fused_attention(), counter:
        result = run()
        kept = counter.live
    del result
    return PassBytes(kept=kept, peaks=(counter.most_since(),), num_gradients=(0,))


@contextmanager
def on_meta_device() -> Iterator[None]:
    """Within the block modules are made without memory, and without drawing their first weights."""
    from transformers.initialization import no_init_weights

    with META, no_init_weights():
        yield


class _Counter(TorchDispatchMode):
    """Runs operations on meta tensors for their shapes, all others for real, and counts the bytes of the former.

    Numbers that decide about shapes (tokens, masks, grids of patches) are never on the meta device: what is sent there
    stays where it is. They are small, and are not counted.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.live = 0.0
        self._most = 0.0
        self._weights = {each.untyped_storage()._cdata for each in (*module.parameters(), *module.buffers())}
        self._seen: dict[int, Any] = {}

    def most_since(self) -> float:
        """Returns the most bytes at a time since this was last asked."""
        most, self._most = self._most, self.live
        return most

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = [*_tensors(args), *_tensors(kwargs.values())]
        is_shape = any(each.is_meta for each in given)
        if kwargs.get("device") is not None:
            kwargs = kwargs | {"device": META if is_shape else CPU}
        if not is_shape:
            return func(*args, **kwargs)
        if func is torch.ops.aten.index.Tensor:
            args = (args[0], _as_numbers(args[1]))
        if not all(each.is_meta for each in given):
            args, kwargs = _as_shapes(args), _as_shapes(kwargs)
        result = func(*args, **kwargs)
        for tensor in _tensors((result,)):
            self._count(tensor)
        return result

    def _count(self, tensor: Tensor) -> None:
        """Adds a tensor's memory, once, until nothing holds it any more."""
        storage = tensor.untyped_storage()
        key, num_bytes = storage._cdata, storage.nbytes()
        if not tensor.is_meta or key in self._seen or key in self._weights:
            return

        def forget(_: object) -> None:
            self.live -= num_bytes
            del self._seen[key]

        self._seen[key] = weakref.ref(storage, forget)
        self.live += num_bytes
        self._most = max(self._most, self.live)


@contextmanager
def _fused_attention() -> Iterator[None]:
    """Within the block attention is as fused kernels have it, on the CPU as on GPUs: it keeps no pairs of tokens.

    It is put in place of torch's own, for a mode of torch's does not reach what a backward pass computes anew.
    """
    own = nn.functional.scaled_dot_product_attention

    def attention(query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if not query.is_meta:
            return own(query, key, value, *args, **kwargs)
        result: Tensor = _AttentionShapes.apply(query, key, value)  # type: ignore[no-untyped-call]
        return result

    nn.functional.scaled_dot_product_attention = attention
    try:
        yield
    finally:
        nn.functional.scaled_dot_product_attention = own


class _AttentionShapes(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Tensor) -> Tensor:
        query, _, value = inputs
        result = query.new_empty(*query.shape[:-1], value.shape[-1])
        logsumexp = query.new_empty(query.shape[:-1], dtype=torch.float32)
        ctx.save_for_backward(*inputs, result, logsumexp)
        return result

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> tuple[Tensor, ...]:
        return tuple(torch.empty_like(each) for each in ctx.saved_tensors[:3])


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    """Yields the tensors among an operation's arguments or results, and in lists among them: it has no others."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _as_shapes(tree: Any) -> Any:
    """Returns arguments with every tensor on the meta device."""

    def shape(tensor: Tensor) -> Tensor:
        if tensor.is_meta:
            return tensor
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=META)

    return tree_map_only(Tensor, shape, tree)


def _as_numbers(indices: list[Tensor | None]) -> list[Tensor | None]:
    """Returns indices with masks, whose shape nobody knows, as the places where they are true."""
    numbers: list[Tensor | None] = []
    for index in indices:
        is_known_mask = index is not None and index.dtype == torch.bool and not index.is_meta
        numbers += index.nonzero(as_tuple=True) if index is not None and is_known_mask else (index,)
    return numbers
