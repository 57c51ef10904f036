"""Training in several processes with accelerate: DDP, or FSDP2 with weights sharded over the processes.

FSDP2 shards weights, gradients, and optimizer states, and gathers them one layer at a time. It is torch's `fully_shard`
itself and not accelerate's wrapper: accelerate shards one model together with its optimizer, and only on accelerators,
while a run has a policy, a critic and a reference, and its tests run on CPUs.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Literal, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from agents.hf.model_families import vision_parts
from training.batch import Batch
from training.config.processes import engine_name
from training.config.run_config import RunConfig
from training.engines.engine import Engine, LaunchedProcesses, LocalEngine, launched
from training.engines.policy import PolicyModel

T = TypeVar("T")


@contextmanager
def engine_of(config: RunConfig, processes: LaunchedProcesses | None = None) -> Iterator[Engine]:
    """Yields the engine of a run; several processes wait for each other, and only the main one prints.

    Args:
        config: The run, as accepted by `require_engine`.
        processes: Already opened processes, if they are used for more than this run; None to open them.
    """
    name = engine_name(config.engine)
    if name == "local":
        yield LocalEngine()
        return

    compute_dtype = getattr(torch, config.dtype)
    if processes is not None:
        yield AcceleratedEngine(name, processes, compute_dtype=compute_dtype)
        return
    with launched(config.device, timeout_min=config.process_timeout_min) as opened:
        assert isinstance(opened, LaunchedProcesses), "this engine requires several processes"
        yield AcceleratedEngine(name, opened, compute_dtype=compute_dtype)


class AcceleratedEngine:
    """The `Engine` of several processes.

    Weights are stored and updated in float32; with `compute_dtype` bfloat16, forward and backward passes and sampling
    use bfloat16.

    Args:
        kind: `"ddp"` keeps a full model in each process, `"fsdp2"` a shard of it.
        processes: All launched processes, one per device.
        compute_dtype: Data type of passes.
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
        """Returns the module sharded in place, or wrapped to sum gradients over processes.

        A module without trained weights is only wrapped to use the same data type in passes.
        """
        if self._mesh is not None:
            return ShardedModule(module, self._mesh, self.compute_dtype, self._any_has, whole)
        if not any(weight.requires_grad for weight in module.parameters()):
            return _Autocast(module, self.device, self.compute_dtype)
        # Without images in its rows, a process has no gradients for the vision tower
        wrapped = DistributedDataParallel(
            module,
            device_ids=[self.device] if self.device.type != "cpu" else None,
            find_unused_parameters=True,
            gradient_as_bucket_view=True,  # avoids a copy of all gradients in addition to the buckets
        )
        wrapped.register_comm_hook(None, lambda _, bucket: _summed(bucket))
        return _Autocast(wrapped, self.device, self.compute_dtype)

    def acting(self, model: Any) -> Any:
        """Returns the model itself, or an unsharded copy if it will be sharded or has another data type."""
        is_shared = self.kind == "ddp" and model.dtype == self.compute_dtype
        return model if is_shared else whole_copy(model, self.compute_dtype)

    def refresh(self, acting: Any, model: Any) -> None:
        """Copies the model's weights to the acting copy."""
        if acting is not model:
            refresh_copy(acting, model)

    def accumulating(self, module: nn.Module, *, is_last: bool) -> AbstractContextManager[None]:
        """Returns a context after which DDP sums gradients if it is the last; FSDP2 always sums them."""
        if isinstance(module, _Autocast) and isinstance(module.module, DistributedDataParallel) and not is_last:
            return cast("AbstractContextManager[None]", module.module.no_sync())
        return nullcontext()

    def gather(self, items: Sequence[T]) -> list[T]:
        """Returns the items of all processes."""
        return self._processes.gather(items)

    def on_main(self, make: Callable[[], T], *, is_long: bool = False) -> T:
        """Returns the result of the main process."""
        return self._processes.on_main(make, is_long=is_long)

    def sum(self, x: Tensor) -> Tensor:
        """Returns the sum over processes."""
        return self._processes.sum(x)

    def _any_has(self, here: bool) -> bool:
        """Returns whether a condition holds in any process."""
        return bool(self.sum(torch.tensor(float(here))) > 0)


class _Autocast(nn.Module):
    """A module whose passes use another data type than its weights."""

    def __init__(self, module: nn.Module, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__()
        self.module, self._device_type, self._dtype = module, device.type, dtype

    def forward(self, *args: Any) -> Any:
        """Runs the module under autocast."""
        with torch.autocast(self._device_type, self._dtype, enabled=self._dtype != torch.float32):
            return self.module(*args)


def _summed(bucket: Any) -> torch.futures.Future[Tensor]:
    """Sums a bucket of gradients over processes instead of averaging: the loss is already normalized over all rows.

    A hook of `DistributedDataParallel.register_comm_hook`.
    """
    work = dist.all_reduce(bucket.buffer(), async_op=True)
    return cast("torch.futures.Future[Tensor]", work.get_future().then(lambda future: future.value()[0]))


class ShardedModule(nn.Module):
    """A module sharded over all processes of a mesh.

    Decoder layers are gathered one at a time; other parts (embeddings, vision tower, head) stay gathered for a
    forward and backward pass. Gradients are summed over processes after every backward pass, because unreduced
    gradients would be unsharded.

    A process without images in its rows would skip the vision tower, and a process with images would wait forever for
    its gradients; so if any process has images, all take part, with zero gradients.

    Args:
        module: A module whose `forward` takes a batch as its first argument; sharded in place.
        mesh: The processes.
        compute_dtype: Data type of weights and activations in passes; stored weights keep theirs.
        any_has: Returns whether a condition holds in any process.
        whole: Weights not to shard, such as those of a frozen tower, which is also used outside of passes.
    """

    def __init__(
        self,
        module: nn.Module,
        mesh: DeviceMesh,
        compute_dtype: torch.dtype,
        any_has: Callable[[bool], bool],
        whole: Collection[nn.Parameter] = (),
    ) -> None:
        super().__init__()
        self.module, self._any_has = module, any_has
        is_kept = compute_dtype == next(module.parameters()).dtype
        policy = (
            MixedPrecisionPolicy()
            if is_kept
            else MixedPrecisionPolicy(param_dtype=compute_dtype, reduce_dtype=torch.float32)
        )
        tower = vision_parts(module.model if isinstance(module, PolicyModel) else module)
        is_trained = any(weight.requires_grad for part in tower for weight in part.parameters())
        self._trained_tower = tuple(tower) if is_trained else ()
        for layer in decoder_layers(module):
            fully_shard(layer, mesh=mesh, mp_policy=policy)
        fully_shard(self, mesh=mesh, mp_policy=policy, ignored_params=set(whole))
        for part in self.modules():
            if isinstance(part, FSDPModule):
                part.set_gradient_divide_factor(1.0)  # the loss is already normalized over all rows
                part.set_force_sum_reduction_for_comms(True)

    def forward(self, batch: Batch, *args: Any) -> Any:
        """Runs the sharded module."""
        # Without a backward pass, FSDP2 would otherwise keep the parts outside of the layers gathered
        cast("FSDPModule", self).set_reshard_after_forward(not torch.is_grad_enabled(), recurse=False)
        outputs = self.module(batch, *args)
        if not self._trained_tower or not torch.is_grad_enabled():
            return outputs
        if not self._any_has(bool(batch.images)) or batch.images:
            return outputs
        weights = (weight for part in self._trained_tower for weight in part.parameters() if weight.requires_grad)
        first: Tensor = outputs[0] + sum(0.0 * weight.sum() for weight in weights)
        return outputs._replace(**{outputs._fields[0]: first}) if hasattr(outputs, "_fields") else (first, *outputs[1:])


def decoder_layers(module: nn.Module) -> list[nn.Module]:
    """Returns the layers of a model's text decoder, in order."""
    for part in module.modules():
        find = getattr(part, "get_decoder", None)
        layers = getattr(find(), "layers", None) if callable(find) else None
        if isinstance(layers, nn.ModuleList):
            return list(layers)
    return []


def whole_copy(model: Any, dtype: torch.dtype) -> Any:
    """Returns an unsharded copy of a model that is not sharded yet, for sampling.

    `requires_grad` is copied, too: from it the sampler infers which parts training changes, such as image features.
    """
    return copy.deepcopy(model).to(dtype).eval()


@torch.no_grad()
def refresh_copy(acting: Any, model: Any) -> None:
    """Copies the weights of a model to its copy, one tensor at a time; a collective operation."""
    targets, done = acting.state_dict(), set[int]()
    for name, value in model.state_dict(keep_vars=True).items():
        if id(value) in done:
            continue  # tied to another one
        done.add(id(value))
        targets[name].copy_(value.full_tensor() if isinstance(value, DTensor) else value)
