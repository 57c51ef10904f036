"""FSDP2: a model's weights, gradients and optimiser states spread over processes, put together a layer at a time.

torch's `fully_shard` itself and not accelerate's way to it: accelerate shards one model together with its optimiser,
and only on accelerators, while a run has a policy, a critic and a reference, and its tests run on CPUs.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

from agents.hf.model_families import vision_parts
from training.batch import Batch
from training.engines.policy import PolicyModel


class ShardedModule(nn.Module):
    """A module spread over all processes of a mesh.

    Decoder layers are put together one at a time, and what is around them (embeddings, vision tower, head) as long as
    a pass takes, its backward pass included. Gradients are summed over processes behind every backward pass, for
    unsummed ones would be whole.

    A process whose rows show no picture leaves the vision tower out, and another that has some would wait for its
    gradients for ever; so all take part, with zeros, wherever one has pictures.

    Args:
        module: Whose `forward` takes a batch first; sharded in place.
        mesh: The processes.
        compute_dtype: Type of weights and activations in a pass; the weights that are kept stay as they are.
        any_has: Whether something is so in any process.
        whole: Weights that are left as they are, as those of a frozen tower, which is asked outside of passes, too.
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
                part.set_gradient_divide_factor(1.0)  # the loss is divided by what all rows count
                part.set_force_sum_reduction_for_comms(True)

    def forward(self, batch: Batch, *args: Any) -> Any:
        """Returns what the module does."""
        # Else FSDP2 would wait for a backward pass that does not come, with all that is around the layers put together
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
    """Returns the layers of a model's text decoder, which it calls one after another."""
    for part in module.modules():
        find = getattr(part, "get_decoder", None)
        layers = getattr(find(), "layers", None) if callable(find) else None
        if isinstance(layers, nn.ModuleList):
            return list(layers)
    return []


def whole_copy(model: Any, dtype: torch.dtype) -> Any:
    """Returns a copy of a model that is not sharded yet, to act with.

    Its weights ask for gradients where the model's do: who acts with it knows by that what training changes, such as
    what is made of pictures.
    """
    return copy.deepcopy(model).to(dtype).eval()


@torch.no_grad()
def refresh_copy(acting: Any, model: Any) -> None:
    """Gives a copy the weights of the model it is of, one tensor at a time; all processes take part."""
    targets, done = acting.state_dict(), set[int]()
    for name, value in model.state_dict(keep_vars=True).items():
        if id(value) in done:
            continue  # tied to another one
        done.add(id(value))
        targets[name].copy_(value.full_tensor() if isinstance(value, DTensor) else value)
