"""Several processes by `accelerate launch`, one per device: DDP, or FSDP2 where a model has to be spread over them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

from training.engines.processes import LaunchedProcesses
from training.engines.sharding import ShardedModule, refresh_copy, whole_copy

T = TypeVar("T")


class AcceleratedEngine:
    """Processes that train together; an `Engine`.

    Weights are kept, and stepped on, in float32; with `compute_dtype` bfloat16 passes run in that, and sampling too.

    Args:
        kind: `"ddp"` keeps a whole model in each process, `"fsdp2"` a part of it.
        processes: All that were launched, one per device.
        compute_dtype: Type that passes run in.
    """

    takes_passes_side_by_side = False

    def __init__(
        self, kind: Literal["ddp", "fsdp2"], processes: LaunchedProcesses, *, compute_dtype: torch.dtype = torch.float32
    ) -> None:
        self.kind, self.compute_dtype, self._processes = kind, compute_dtype, processes
        self.num_processes, self.rank = processes.num_processes, processes.rank
        self.device, self.group = processes.device, processes.group
        self._mesh = init_device_mesh(self.device.type, (self.num_processes,)) if kind == "fsdp2" else None

    def prepare(self, module: nn.Module, whole: Collection[nn.Parameter] = ()) -> nn.Module:
        """Returns the module sharded in place, or wrapped for gradients to be summed over processes.

        One without trained weights has no gradients, and its passes run in the same type as the others'.
        """
        if self._mesh is not None:
            return ShardedModule(module, self._mesh, self.compute_dtype, self._any_has, whole)
        if not any(weight.requires_grad for weight in module.parameters()):
            return _Autocast(module, self.device, self.compute_dtype)
        # A process may show no picture where another does, or nobody does: those weights have no gradient then
        wrapped = DistributedDataParallel(
            module,
            device_ids=[self.device] if self.device.type != "cpu" else None,
            find_unused_parameters=True,
            gradient_as_bucket_view=True,  # not a copy of all of them beside the buckets in a step
        )
        wrapped.register_comm_hook(None, lambda _, bucket: _summed(bucket))
        return _Autocast(wrapped, self.device, self.compute_dtype)

    def acting(self, model: Any) -> Any:
        """Returns the model itself, or a whole copy where it is to be sharded or computed with in another type."""
        is_shared = self.kind == "ddp" and model.dtype == self.compute_dtype
        return model if is_shared else whole_copy(model, self.compute_dtype)

    def refresh(self, acting: Any, model: Any) -> None:
        """Gives the copy the model's weights."""
        if acting is not model:
            refresh_copy(acting, model)

    def accumulating(self, module: nn.Module, *, is_last: bool) -> AbstractContextManager[None]:
        """Gives a block behind which DDP sums gradients if it is the last; FSDP2 does behind each, see there."""
        if isinstance(module, _Autocast) and isinstance(module.module, DistributedDataParallel) and not is_last:
            return cast("AbstractContextManager[None]", module.module.no_sync())
        return nullcontext()

    def gather(self, items: Sequence[T]) -> list[T]:
        """Returns every process's items."""
        return self._processes.gather(items)

    def on_main(self, make: Callable[[], T], *, is_long: bool = False) -> T:
        """Returns what the main process makes."""
        return self._processes.on_main(make, is_long=is_long)

    def sum(self, x: Tensor) -> Tensor:
        """Returns the sum over processes."""
        return self._processes.sum(x)

    def _any_has(self, here: bool) -> bool:
        """Returns whether something is so in any process."""
        return bool(self.sum(torch.tensor(float(here))) > 0)


class _Autocast(nn.Module):
    """A module whose passes run in another type than its weights are kept in."""

    def __init__(self, module: nn.Module, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__()
        self.module, self._device_type, self._dtype = module, device.type, dtype

    def forward(self, *args: Any) -> Any:
        """Returns what the module does."""
        with torch.autocast(self._device_type, self._dtype, enabled=self._dtype != torch.float32):
            return self.module(*args)


def _summed(bucket: Any) -> torch.futures.Future[Tensor]:
    """Sums a bucket of gradients over processes, where DDP would average: the loss is divided by what all rows count.

    A hook of `DistributedDataParallel.register_comm_hook`.
    """
    work = dist.all_reduce(bucket.buffer(), async_op=True)
    return cast("torch.futures.Future[Tensor]", work.get_future().then(lambda future: future.value()[0]))
