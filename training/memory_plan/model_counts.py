"""Sizes of a checkpoint's parts and the memory of its passes, counted on models without weights.

The trainer's own modules run here on weights of torch's meta device, which have shapes and no memory. So what a pass
keeps for its backward pass is not estimated from a formula that some model does not follow; it is counted, in
whatever version of transformers is installed, with whatever family, chunks and checkpoints the trainer has.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from agents.hf.model_families import vision_parts
from agents.hf.row_passes import share_prefixes
from training.batch import OBSERVED, Batch
from training.config.run_config import RunConfig
from training.config.update_config import MemoryConfig
from training.engines.accelerated_engine import decoder_layers
from training.engines.logprobs import KEPT_SHARE, tokens_per_chunk
from training.engines.lora import add_adapters
from training.engines.policy import PolicyModel, RowPass, ValueModel, freeze_vision_tower, hidden_states, row_pass_of
from training.memory_plan.plan_rows import RowShape
from vlm_envs.errors import ConfigError
from vlm_envs.validation import require

MAX_TURNS = 64
"""Most turns that are counted: with small vocabularies a chunk of logits is longer than any micro-batch."""
META, CPU = torch.device("meta"), torch.device("cpu")


@dataclass(frozen=True, kw_only=True)
class ModelShape:
    """Elements of a model, a policy or a critic.

    Attributes:
        num_parameters: All weights, those that two parts share counted once.
        num_trained: Those that an optimiser steps.
        num_vision: Those of the vision tower, with what leads from it to the language model.
        num_frozen_vision: Those of it that are not trained.
        num_embeddings: Those of the embeddings of tokens.
        num_head: Those of the head; 0 where it shares the embeddings.
        largest_weight: The largest of its tensors.
        largest_layer: The largest decoder layer, of which FSDP2 gathers one after the other.
        num_outside_layers: All that is in no decoder layer, a trained vision tower too, which FSDP2 gathers as a whole.
        cached_per_token: Keys and values of a token.
        vocab_size: Tokens there are.
    """

    num_parameters: int
    num_trained: int
    num_vision: int
    num_frozen_vision: int
    num_embeddings: int
    num_head: int
    largest_weight: int
    largest_layer: int
    num_outside_layers: int
    cached_per_token: int
    vocab_size: int

    @property
    def num_language(self) -> int:
        """Weights that a token goes through: neither embeddings nor head nor vision tower."""
        return self.num_parameters - self.num_vision - self.num_embeddings - self.num_head


def model_without_memory(directory: Path, dtype: Any) -> Any:
    """Returns a checkpoint's model on the meta device, from its config.json alone.

    Args:
        directory: Has a config.json.
        dtype: Type of the weights.

    Raises:
        ConfigError: If the configuration is of no such model.
    """
    from huggingface_hub.errors import StrictDataclassError
    from transformers import AutoConfig, AutoModelForImageTextToText

    try:
        config = AutoConfig.from_pretrained(directory, local_files_only=True)
        with on_meta_device():
            model = AutoModelForImageTextToText.from_config(config, dtype=dtype)
    except (OSError, ValueError, KeyError, AttributeError, TypeError, StrictDataclassError) as error:
        raise ConfigError(
            f"{directory / 'config.json'} does not describe a model: {' '.join(str(error).split())}"
        ) from error
    _require_one_width(config, directory)
    model.tie_weights()
    return model.eval()


def _require_one_width(config: Any, directory: Path) -> None:
    """Refuses a vision tower whose vectors are not as wide as those of the text that they go among."""
    width, shown = config.get_text_config().hidden_size, getattr(config.vision_config, "out_hidden_size", None)
    require(
        shown is None or shown == width or config.model_type not in ("qwen2_5_vl", "qwen3_vl"),
        f"{directory / 'config.json'}: vision_config.out_hidden_size is {shown}, but the text's "
        f"hidden_size is {width}; they have to be equal.",
    )


def shape_of(model: Any, language: Any) -> ModelShape:
    """Returns the size of a policy or a critic.

    Args:
        model: The whole; its weights may be without memory.
        language: The checkpoint's model with its head, as transformers has it, that a critic was made from.
    """
    sizes = _sizes(model)
    decoder, embeddings = model.model.get_decoder(), model.model.get_input_embeddings()
    head = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    num_head = 0 if head is None or head.weight is embeddings.weight else head.weight.numel()
    layers = [_num_elements(each) for each in decoder_layers(model)]
    tower = {id(weight): weight for part in vision_parts(model) for weight in part.parameters()}.values()
    is_trained = any(weight.requires_grad for weight in tower)
    num_frozen_vision = 0 if is_trained else sum(weight.numel() for weight in tower)
    text = language.config.get_text_config()
    head_dim = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    return ModelShape(
        num_parameters=sum(sizes.values()),
        num_trained=sum(weight.numel() for weight in model.parameters() if weight.requires_grad),
        num_vision=_num_elements(model.model) - _num_elements(decoder),
        num_frozen_vision=num_frozen_vision,
        num_embeddings=embeddings.weight.numel(),
        num_head=num_head,
        largest_weight=max(sizes.values()),
        largest_layer=max(layers, default=0),
        num_outside_layers=sum(sizes.values()) - sum(layers) - num_frozen_vision,
        cached_per_token=2 * text.num_hidden_layers * text.num_key_value_heads * head_dim,
        vocab_size=text.vocab_size,
    )


def _sizes(module: nn.Module) -> dict[str, int]:
    return {name: weight.numel() for name, weight in module.named_parameters()}


def _num_elements(module: nn.Module) -> int:
    return sum(_sizes(module).values())


class ModelPasses:
    """The passes of a run's policy and critic over any number of turns.

    Memory goes by tokens and pictures, not by how they are put into rows: attention keeps nothing for pairs of tokens.
    So a row here is one turn, and what a pass over some rows and over twice as many hold tells it of all others. No two
    of them begin alike, and no picture is seen twice: what siblings share makes a pass smaller than its plan.

    Args:
        model: The checkpoint's model, without memory; what the run freezes of it is frozen here.
        config: The run.
        row: Its longest row.
    """

    def __init__(self, model: Any, config: RunConfig, row: RowShape) -> None:
        self.model, self.config, self.row = model, config, row
        self._counted: dict[tuple[str, int], PassBytes] = {}
        if config.lora.rank is not None:
            add_adapters(model, config.lora)
        if config.memory.freeze_vision_tower:
            freeze_vision_tower(model)
        row_pass = _row_pass(model, config.memory)
        if row_pass.shares_prefixes:
            share_prefixes(model)
        self.policy = PolicyModel(model, temperature=config.sampling.temperature, suppressed_ids=[], row_pass=row_pass)
        critic = config.algorithm.critic_config
        self.critic = None if critic is None else ValueModel(model, row_pass, trunk=critic.trunk)
        self.policy_shape = shape_of(model, model)
        self.critic_shape: ModelShape | None = None if self.critic is None else shape_of(self.critic, model)

    def policy_training(self, num_turns: float) -> PassBytes:
        """Returns what the policy's forward and backward pass over so many turns holds."""
        mode = "graph" if self.config.ppo.entropy_coef > 0 else "value"

        def counted(batch: Batch) -> PassBytes:
            return training_pass(self.policy, lambda: self.policy(batch, mode)[0])

        return self._extended("policy training", counted, num_turns)

    def policy_evaluation(self, num_turns: float) -> PassBytes:
        """Returns what its forward pass alone holds."""

        def counted(batch: Batch) -> PassBytes:
            return evaluation_pass(self.policy, lambda: self.policy(batch, "none"))

        return self._extended("policy evaluation", counted, num_turns)

    def critic_training(self, num_turns: float) -> PassBytes:
        """Returns what the critic's forward and backward pass holds."""
        critic = self.critic
        assert critic is not None

        def counted(batch: Batch) -> PassBytes:
            return training_pass(critic, lambda: critic(batch).before_BT)

        return self._extended("critic training", counted, num_turns)

    def prefill(self, num_turns: float) -> PassBytes:
        """Returns what a pass over what so many episodes are shown at a time holds, without a head."""

        def counted(batch: Batch) -> PassBytes:
            return evaluation_pass(self.policy, lambda: hidden_states(self.model, batch))

        return self._extended("prefill", counted, num_turns)

    def _extended(self, what: str, counted: Callable[[Batch], PassBytes], num_turns: float) -> PassBytes:
        """Returns what a pass holds over so many turns, from a few and twice as many.

        Bytes grow evenly with turns, but for logits: they are kept for the backward pass while they are few, and grow
        until they fill a chunk. Turns are counted on the same side of both.
        """
        chunk_turns = tokens_per_chunk(self.policy_shape.vocab_size) / self.row.num_response_tokens
        limits = (chunk_turns * KEPT_SHARE, chunk_turns)
        few = max((math.floor(limit) + 1 for limit in limits if limit < min(num_turns, MAX_TURNS)), default=1)
        pair = []
        for number in (few, 2 * few):
            if (what, number) not in self._counted:
                self._counted[what, number] = counted(self._batch(number))
            pair.append(self._counted[what, number])
        return pair[0].towards(pair[1], (num_turns - few) / few)

    def _batch(self, num_rows: int) -> Batch:
        """Returns rows of one average turn each, all of them different."""
        row = self.row
        images, num_tokens = row.later.images, max(row.tokens_per_turn, row.later.num_image_tokens + 2)
        image_token_id = self.model.config.image_token_id
        text_ids = torch.tensor([each for each in range(num_rows + 1) if each != image_token_id])
        ids = text_ids[:num_rows, None].repeat(1, num_tokens)
        ids[:, 1 : 1 + row.later.num_image_tokens] = image_token_id
        turn_index = torch.full_like(ids, OBSERVED)
        turn_index[:, -min(row.num_response_tokens, num_tokens - 1) :] = 0
        nothing, always = torch.zeros(num_rows, dtype=torch.bool), torch.ones(num_rows, 1, dtype=torch.bool)
        return Batch(
            input_ids_BT=ids,
            attention_mask_BT=torch.ones_like(ids),
            turn_index_BT=turn_index,
            sampler_logprobs_BT=torch.zeros(ids.shape),
            turn_rewards_BK=torch.zeros(num_rows, 1),
            trainable_BK=always,
            state_index_BK=torch.zeros(num_rows, 1, dtype=torch.long),
            max_response_tokens=row.num_response_tokens,
            terminated_B=nothing,
            has_final_B=nothing,
            group_index_B=torch.arange(num_rows),
            trainable_B=always[:, 0],
            images=tuple(
                replace(image, key=f"{place} {number}".encode())
                for place in range(num_rows)
                for number, image in enumerate(images)
            ),
            row_image_offsets=tuple(len(images) * number for number in range(num_rows + 1)),
            image_token_id=image_token_id,
            suppressed_ids=(),
        )


def _row_pass(model: Any, memory: MemoryConfig) -> RowPass:
    """Returns how rows go through a model here, which has torch's own attention; packed they hold as much."""
    if memory.packing == "on" or memory.attention not in (None, "sdpa"):
        return RowPass(recomputes_layers=memory.gradient_checkpointing)
    return row_pass_of(model, memory)


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
