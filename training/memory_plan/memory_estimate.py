"""Bytes per GPU in each phase of a run, in closed form from the sizes of a model's layers.

Weights are counted on a model without memory. Activations are what each linear layer, norm, and attention keeps for
the backward pass, with fused attention, which keeps nothing for pairs of tokens; within about 10% of a traced pass.
Source of mixed precision's 16 bytes per weight: Rajbhandari et al., "ZeRO" (2020), section 3.1; here gradients are
accumulated in float32 too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from agents.hf.model_families import vision_parts
from training.config.processes import engine_name, require_engine
from training.config.run_config import RunConfig
from training.config.world_spec import MAX_PARALLEL
from training.engines.accelerated_engine import decoder_layers
from training.engines.host_memory import HostBytes
from training.engines.logprobs import tokens_per_chunk
from training.engines.lora import add_adapters
from training.engines.policy import ValueModel, freeze_vision_tower
from training.memory_plan.plan_config import PlanConfig
from training.memory_plan.plan_rows import GIB, RowShape
from vlm_envs.errors import ConfigError
from vlm_envs.validation import require

FLOAT32 = 4
CACHE_CHUNK = 128
"""Tokens by which caches grow, see `agents.hf.sampler`."""
SAMPLER_COPIES = 6
"""Float32 copies of a step's logits while a token is drawn: raw, some suppressed, log-probabilities, the race."""
ADAMW_COPIES = 2
"""Float32 copies of one weight while AdamW steps it without a fused kernel."""

AtHand = Literal["reference", "policy", "critic"]
"""Whose part of what may be offloaded is on the device in a phase."""


@dataclass(frozen=True, kw_only=True)
class ModelShape:
    """Number of elements in a model, a policy or a critic.

    Attributes:
        num_parameters: All weights; weights shared by two parts are counted once.
        num_trained: Weights that an optimizer steps.
        num_vision: The vision tower and its projector.
        num_frozen_vision: `num_vision` if the tower is not trained, else 0.
        num_embeddings: Token embeddings.
        num_head: The head; 0 if it shares the embeddings.
        largest_weight: The largest tensor.
        largest_layer: The largest decoder layer; FSDP2 gathers layers one by one.
        num_outside_layers: Everything outside the decoder layers that FSDP2 shards, which it gathers at once.
        cached_per_token: Keys and values of a token.
        vocab_size: Tokens of the vocabulary.
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

    Raises:
        ConfigError: If the configuration does not describe a model.
    """
    from huggingface_hub.errors import StrictDataclassError
    from transformers import AutoConfig, AutoModelForImageTextToText

    path = directory / "config.json"
    try:
        config = AutoConfig.from_pretrained(directory, local_files_only=True)
        with on_meta_device():
            model = AutoModelForImageTextToText.from_config(config, dtype=dtype)
    except (OSError, ValueError, KeyError, AttributeError, TypeError, StrictDataclassError) as error:
        raise ConfigError(f"{path} does not describe a model: {' '.join(str(error).split())}") from error
    width, shown = config.get_text_config().hidden_size, getattr(config.vision_config, "out_hidden_size", None)
    require(
        shown in (None, width) or config.model_type not in ("qwen2_5_vl", "qwen3_vl"),
        f"{path}: vision_config.out_hidden_size is {shown}, but the text's hidden_size is {width}; they have to be "
        "equal.",
    )
    model.tie_weights()
    return model.eval()


@contextmanager
def on_meta_device() -> Iterator[None]:
    """Makes modules within the block without memory, and without drawing their initial weights."""
    from transformers.initialization import no_init_weights

    with torch.device("meta"), no_init_weights():
        yield


def shape_of(model: Any, language: Any) -> ModelShape:
    """Returns the size of a policy or a critic.

    Args:
        model: The whole model; its weights may be without memory.
        language: The checkpoint's model with its head, from which a critic was made.
    """
    sizes = [weight.numel() for weight in model.parameters()]
    decoder, embeddings = model.model.get_decoder(), model.model.get_input_embeddings()
    head = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    layers = [_num_elements([layer]) for layer in decoder_layers(model)]
    tower = vision_parts(model)
    is_frozen = not any(weight.requires_grad for part in tower for weight in part.parameters())
    num_frozen_vision = _num_elements(tower) if is_frozen else 0
    text = language.config.get_text_config()
    head_dim = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    return ModelShape(
        num_parameters=sum(sizes),
        num_trained=sum(weight.numel() for weight in model.parameters() if weight.requires_grad),
        num_vision=_num_elements([model.model]) - _num_elements([decoder]),
        num_frozen_vision=num_frozen_vision,
        num_embeddings=embeddings.weight.numel(),
        num_head=0 if head is None or head.weight is embeddings.weight else head.weight.numel(),
        largest_weight=max(sizes),
        largest_layer=max(layers, default=0),
        num_outside_layers=sum(sizes) - sum(layers) - num_frozen_vision,
        cached_per_token=2 * text.num_hidden_layers * text.num_key_value_heads * head_dim,
        vocab_size=text.vocab_size,
    )


def _num_elements(modules: Iterable[nn.Module]) -> int:
    weights = {id(weight): weight for module in modules for weight in module.parameters()}
    return sum(weight.numel() for weight in weights.values())


@dataclass(frozen=True, kw_only=True)
class LayerBytes:
    """Bytes per token in a stack of equal layers.

    Attributes:
        num_layers: Layers.
        width: A hidden state.
        kept: What one layer keeps for its backward pass.
        forward: What a forward pass needs for the layer that is being computed.
        backward: The same of a backward pass, besides what is kept.
    """

    num_layers: int
    width: int
    kept: int
    forward: int
    backward: int

    def all_kept(self, *, recomputes: bool) -> int:
        """Returns what all layers keep; with gradient checkpointing only their inputs."""
        return self.num_layers * (self.width if recomputes else self.kept)


def layer_bytes(layers: list[Any], num_bytes: int, *, rank: int | None = None) -> LayerBytes:
    """Returns what layers hold, from the sizes of the linear layers and norms in the first of them.

    Args:
        layers: Decoder layers or blocks of a vision tower, without adapters.
        num_bytes: Bytes of an activation.
        rank: Of the adapters that are trained in place of the layers; None without.
    """
    layer, widths, forward, backward = layers[0], [], 0, 0
    kept = sum(scale.numel() for scale in layer.parameters(recurse=False))  # of what InternVL's tower scales
    norm_bytes = num_bytes  # LayerNorm keeps its input, an RMS norm a float32 copy, and what it multiplies by weights
    norm_sizes = 0
    for part in layer.modules():
        linear = [child for child in part.children() if isinstance(child, nn.Linear)]
        for name, child in part.named_children():
            if isinstance(getattr(child, "weight", None), Tensor) and not isinstance(child, nn.Linear):
                if not isinstance(child, nn.LayerNorm):
                    norm_bytes = FLOAT32 + (num_bytes if rank is None else 0)
                projection = getattr(part, name.replace("norm", "proj"), None)  # of queries or keys, head by head
                norm_sizes += child.weight.numel() if projection is None else projection.out_features
        if not linear:
            continue
        *inner, last = linear
        given, results = inner[0].in_features, sum(each.out_features for each in inner)
        widths.append(given)
        is_fused = len(inner) == 1 and results == 3 * last.in_features
        rotated = is_fused * 2 * last.in_features  # queries and keys, apart from the result of all three
        kept += given + results + rotated + (1 + (len(inner) > 1 or is_fused)) * last.in_features
        kept += (rank or 0) * len(linear)
        forward = max(forward, results + rotated + last.in_features * (1 if rank is None else 2))
        backward = max(backward, results)
    return LayerBytes(
        num_layers=len(layers),
        width=num_bytes * widths[0],
        kept=num_bytes * kept + norm_bytes * norm_sizes,
        forward=num_bytes * (forward + 5 * widths[0]),
        backward=num_bytes * backward,
    )


@dataclass(frozen=True, kw_only=True)
class PassBytes:
    """Bytes that a pass over a micro-batch holds besides weights and their gradients.

    Attributes:
        kept: What text and vision layers keep for the backward pass.
        kept_vision: The vision layers' part, which is freed last.
        working: What the layer holds that is being computed.
        logits: What a chunk of logits holds, which is freed before layers go backward.
        tied: The head's gradient, which waits for that of embeddings it shares its weights with.
    """

    kept: float = 0.0
    kept_vision: float = 0.0
    working: float = 0.0
    logits: float = 0.0
    tied: float = 0.0

    @property
    def activations(self) -> float:
        """Most bytes of layers at a time."""
        return max(self.kept + self.working + self.tied, 3 * self.tied)  # the embeddings' own, and the sum of both

    @property
    def most(self) -> float:
        """Most bytes at a time."""
        return max(self.activations, self.kept + self.logits)

    @property
    def parts(self) -> dict[str, float]:
        """The same, by part of a phase."""
        return {"activations": self.activations, "logits": self.most - self.activations}

    def most_with(self, bytes_per_gradient: float, model: ModelShape) -> float:
        """Returns the most bytes at a time with gradients, which appear while activations are freed."""
        num_vision = 0 if model.num_frozen_vision else model.num_vision
        trained, text = model.num_trained, max(0, model.num_trained - num_vision)
        at_end = bytes_per_gradient * trained + 2 * self.tied
        return max(self.most, self.kept_vision + bytes_per_gradient * text, at_end)


class ModelBytes:
    """Sizes of a run's policy and critic, and bytes of their passes over any number of turns.

    Sharing makes a pass smaller than its estimate: no two rows begin alike here, and no image is seen twice.

    Args:
        model: The checkpoint's model without memory, in the type of activations; it gets the run's adapters and frozen
            weights.
        config: The run.
        row: Its longest row.
    """

    def __init__(self, model: Any, config: RunConfig, row: RowShape) -> None:
        self.config, self.row = config, row
        num_bytes = FLOAT32 if model.dtype == torch.float32 else 2
        self.num_bytes, self.num_layers = num_bytes, model.config.get_text_config().num_hidden_layers
        stacks = [[*each] for part in vision_parts(model) for each in part.modules() if isinstance(each, nn.ModuleList)]
        self.text = layer_bytes(decoder_layers(model), num_bytes, rank=config.lora.rank)
        self.vision = layer_bytes(max(stacks, key=len), num_bytes)
        if config.lora.rank is not None:
            add_adapters(model, config.lora)
        if config.memory.freeze_vision_tower:
            freeze_vision_tower(model)
        critic = config.algorithm.critic_config
        self.policy = shape_of(model, model)
        self.critic = None if critic is None else shape_of(ValueModel(model, trunk=critic.trunk), model)

    def policy_training(self, num_turns: float) -> PassBytes:
        """Returns what the policy's forward and backward pass holds."""
        logits = self._logits(num_turns, num_copies=4 if self.config.ppo.entropy_coef > 0 else 3)
        if self.config.lora.rank is not None:
            return replace(self._trained(num_turns), logits=logits)
        head = float((self.policy.num_head or self.policy.num_embeddings) * self.num_bytes)
        has_chunks = num_turns * self.row.num_response_tokens > tokens_per_chunk(self.policy.vocab_size)
        logits += has_chunks * head  # its gradient so far, beside that of the next chunk
        return replace(self._trained(num_turns), logits=logits, tied=0.0 if self.policy.num_head else head)

    def policy_evaluation(self, num_turns: float) -> PassBytes:
        """Returns what the policy's forward pass alone holds."""
        return replace(self.prefill(num_turns), logits=self._logits(num_turns, num_copies=2))

    def critic_training(self, num_turns: float) -> PassBytes:
        """Returns what the critic's forward and backward pass holds."""
        critic = self.config.algorithm.critic_config
        if critic is not None and critic.trunk == "policy":  # a head on hidden states
            hidden = num_turns * self.row.tokens_per_turn * self.text.width
            return PassBytes(kept=4 * hidden, working=max(0.0, self.prefill(num_turns).working - 4 * hidden))
        return self._trained(num_turns)

    def prefill(self, num_turns: float) -> PassBytes:
        """Returns what a forward pass without the head holds."""
        row = self.row
        text, vision = row.tokens_per_turn * self.text.forward, row.later.num_patches * self.vision.forward
        return PassBytes(working=num_turns * max(text, vision))

    def _trained(self, num_turns: float) -> PassBytes:
        recomputes = self.config.memory.gradient_checkpointing
        num_tokens, num_patches = num_turns * self.row.tokens_per_turn, num_turns * self.row.later.num_patches
        is_frozen = self.policy.num_frozen_vision > 0
        # Besides layers there are the last norm, and the tower's projector
        text = self.text.all_kept(recomputes=recomputes) + 3 * self.text.width
        vision = 0 if is_frozen else self.vision.all_kept(recomputes=recomputes) + 5 * self.vision.width
        working = num_tokens * (self.text.backward + recomputes * self.text.kept)
        return PassBytes(
            kept=num_tokens * text + num_patches * vision, kept_vision=num_patches * vision, working=working
        )

    def _logits(self, num_turns: float, *, num_copies: int) -> float:
        vocab_size = self.policy.vocab_size
        num_tokens = min(num_turns * self.row.num_response_tokens, tokens_per_chunk(vocab_size))
        hidden = 2 * num_turns * self.row.tokens_per_turn * self.text.width
        return num_tokens * vocab_size * (num_copies * FLOAT32 + self.num_bytes) + hidden


@dataclass(frozen=True, kw_only=True)
class Spread:
    """How models are distributed over GPUs.

    Attributes:
        engine: One process alone; DDP, with a whole model on each; or FSDP2, sharded.
        num_processes: GPUs, one process each.
        compute_bytes: Bytes of a weight in passes (`--dtype`).
        is_fused: Whether one kernel takes a whole AdamW step, as on GPUs.
        offloads_reference: Whether the reference waits in host memory.
        offloads_optimizer: Whether masters and AdamW's moments do.
    """

    engine: Literal["local", "ddp", "fsdp2"]
    num_processes: int
    compute_bytes: int
    is_fused: bool = True
    offloads_reference: bool = False
    offloads_optimizer: bool = False

    @property
    def has_buckets(self) -> bool:
        """Whether DDP sums gradients over processes in float32 buckets, which it keeps throughout."""
        return self.engine == "ddp" and self.num_processes > 1

    @property
    def num_shards(self) -> int:
        """GPUs that share one copy of weights, gradients, and optimizer states."""
        return self.num_processes if self.engine == "fsdp2" else 1

    @property
    def weight_bytes(self) -> int:
        """Bytes of a weight as it is stored: several processes store float32, which serves as masters too."""
        return self.compute_bytes if self.engine == "local" else FLOAT32

    @property
    def activation_bytes(self) -> int:
        """Bytes of most activations; autocast leaves norms and residuals in float32, so DDP's are an upper bound."""
        return FLOAT32 if self.engine == "ddp" else self.compute_bytes

    @property
    def has_masters(self) -> bool:
        """Whether weights have float32 copies that the optimizer steps."""
        return self.weight_bytes < FLOAT32

    @property
    def has_acting_copy(self) -> bool:
        """Whether a whole model in `--dtype` samples beside the trained one."""
        return self.engine == "fsdp2" or self.compute_bytes != self.weight_bytes

    def kept(self, model: ModelShape) -> float:
        """Returns the bytes of a model's weights; a frozen tower is whole in each process."""
        shared = model.num_parameters - model.num_frozen_vision
        return self.weight_bytes * (shared / self.num_shards + model.num_frozen_vision)


def held(
    policy: ModelShape,
    critic: ModelShape | None,
    spread: Spread,
    *,
    has_reference: bool,
    fixed: dict[str, float],
    at_hand: AtHand | None = None,
) -> dict[str, float]:
    """Returns the bytes that are held throughout a phase, by part.

    Args:
        policy: The policy's size.
        critic: The critic's; None without one.
        spread: How models are distributed.
        has_reference: Whether there is a copy of the initial policy; frozen weights are not copied.
        fixed: Bytes of parts that are not models.
        at_hand: Whose offloaded part is on the device.
    """
    has_reference = has_reference and (not spread.offloads_reference or at_hand == "reference")
    steps_policy, steps_critic = (not spread.offloads_optimizer or at_hand == who for who in ("policy", "critic"))
    num_trained = policy.num_trained + (0 if critic is None else critic.num_trained)
    return {
        "weights": spread.kept(policy),
        "sampler": spread.has_acting_copy * policy.num_parameters * spread.compute_bytes,
        **{name: steps_policy * each for name, each in optimizer_states(policy, spread).items()},
        "reference": has_reference * policy.num_trained * spread.weight_bytes / spread.num_shards,
        "critic": 0.0 if critic is None else model_and_states(critic, spread, has_states=steps_critic),
        "buckets": float(spread.has_buckets * FLOAT32 * num_trained),
        **fixed,
    }


def optimizer_states(model: ModelShape, spread: Spread) -> dict[str, float]:
    """Returns the bytes of float32 masters, if weights have fewer bits, and of AdamW's two moments."""
    trained = model.num_trained / spread.num_shards
    return {"masters": spread.has_masters * FLOAT32 * trained, "Adam": 2 * FLOAT32 * trained}


def model_and_states(model: ModelShape, spread: Spread, *, has_states: bool = True) -> float:
    """Returns the bytes of a second model and its optimizer states; it shares frozen weights with the first."""
    weights = model.num_trained * spread.weight_bytes / spread.num_shards
    return weights + has_states * sum(optimizer_states(model, spread).values())


def in_hosts_memory(
    policy: ModelShape,
    critic: ModelShape | None,
    spread: Spread,
    *,
    has_reference: bool,
    has_adapters: bool,
    keeps_copy: bool,
) -> HostBytes:
    """Returns what each process keeps in host memory.

    Args:
        policy: The policy's size.
        critic: The critic's; None without one.
        spread: How models are distributed.
        has_reference: Whether there is a copy of the initial policy.
        has_adapters: Whether adapters alone are trained and part of the run's state.
        keeps_copy: Whether a copy of that state is kept. Tied embeddings and frozen weights of policy and critic
            appear in it twice, under two names.
    """
    models = [policy] if critic is None else [policy, critic]
    states = sum(sum(optimizer_states(model, spread).values()) for model in models)
    weights = sum(spread.weight_bytes * model.num_trained if has_adapters else spread.kept(model) for model in models)
    if not has_adapters and not policy.num_head:
        weights += spread.weight_bytes * policy.num_embeddings / spread.num_shards
    return HostBytes(
        reference=spread.offloads_reference * has_reference * policy.num_trained * spread.weight_bytes,
        states=spread.offloads_optimizer * states,
        copy=keeps_copy * (weights + states),
    )


def gradients_beside(passed: PassBytes, model: ModelShape, spread: Spread, *, num_micro_batches: int) -> float:
    """Returns what gradients add to the most bytes of a training pass.

    Gradients appear while activations are freed, but from the second micro-batch of a step on, those of the first are
    there throughout. bfloat16 gradients are accumulated in float32 after each backward pass. DDP has a step's last
    gradients in its buckets, into which each goes when it is complete.
    """
    whole = FLOAT32 * model.num_trained / spread.num_shards
    growing = spread.weight_bytes / spread.num_shards
    is_first = num_micro_batches == 1
    if spread.has_buckets and is_first:
        return float(FLOAT32 * model.largest_weight)
    if spread.has_masters:
        before = 0.0 if is_first else whole
        most = max(before + passed.most_with(growing, model), whole + growing * model.largest_weight)
    else:
        most = passed.most_with(growing, model) if is_first else whole + passed.most
    return max(0.0, most - passed.most)


def step_extras(model: ModelShape, spread: Spread) -> float:
    """Returns what an AdamW step needs for itself: nothing in a fused kernel, else copies of weights."""
    if spread.is_fused:
        return 0.0
    copies = 0 if spread.has_masters else model.num_trained
    return FLOAT32 * (ADAMW_COPIES * model.largest_weight + copies) / spread.num_shards


def gathered(model: ModelShape, spread: Spread, *, is_trained: bool, recomputes_layers: bool = False) -> float:
    """Returns the bytes that a pass on one of several GPUs gathers.

    FSDP2 gathers everything outside the decoder layers, and the current and the next layer, in the type of passes. In
    training it also holds whole gradients of the former and of one layer, and the larger of the two in float32 while
    it is summed. Under DDP, if passes are in another type than weights, autocast keeps the trained ones in it for the
    whole pass; a backward pass needs frozen ones beside adapters too unless layers are recomputed, but no frozen tower.
    """
    if spread.engine == "local" or spread.num_processes == 1:
        return 0.0
    if spread.engine == "ddp":
        keeps_frozen = is_trained and not recomputes_layers
        num_cast = model.num_parameters - model.num_frozen_vision if keeps_frozen else model.num_trained
        return float(spread.has_acting_copy * spread.compute_bytes * num_cast)
    outside, layer = model.num_outside_layers, model.largest_layer
    found = spread.compute_bytes * (outside + 2 * layer)
    if is_trained:
        found += spread.compute_bytes * (outside + layer) + FLOAT32 * max(outside, layer)
    return float(found)


def kv_cache(policy: ModelShape, spread: Spread, *, num_rows: int, num_tokens: int, num_layers: int) -> float:
    """Returns the bytes of keys and values of episodes sampled side by side; one layer is there twice as it grows."""
    room = -(-num_tokens // CACHE_CHUNK) * CACHE_CHUNK
    return num_rows * room * policy.cached_per_token * spread.compute_bytes * (1 + 1 / num_layers)


Phases = dict[str, dict[str, float]]
"""Bytes of a GPU by phase of an iteration and by part, each phase at its most."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The memory that a run needs.

    Attributes:
        phases: In the order in which they come.
        capacity: Bytes of a GPU.
        micro_batch_rows: Rows of a micro-batch as the run is configured.
        rows_per_step: Rows of an optimizer step in each process.
        largest_micro_batch_rows: The most that fit; 0 if not even one does.
        host: What each process keeps in host memory.
        num_processes: Processes on one machine.
        host_capacity: Bytes of its memory; None if unknown (assumed sufficient).
    """

    phases: Phases
    capacity: float
    micro_batch_rows: int
    rows_per_step: int
    largest_micro_batch_rows: int
    host: HostBytes
    num_processes: int
    host_capacity: float | None

    @property
    def peak(self) -> float:
        """Most bytes of a GPU at a time."""
        return most_of(self.phases)

    @property
    def host_peak(self) -> float:
        """Most bytes of host memory at a time, of all processes on the machine."""
        return self.num_processes * self.host.total

    @property
    def fits(self) -> bool:
        """Whether GPU and host have enough."""
        return self.peak <= self.capacity and not self.is_short_of_host_memory

    @property
    def is_short_of_host_memory(self) -> bool:
        """Whether the host has too little."""
        return self.host_capacity is not None and self.host_peak > self.host_capacity


def most_of(phases: Phases) -> float:
    """Returns the bytes of the largest phase."""
    return max(sum(parts.values()) for parts in phases.values())


def plan_of(config: RunConfig, plan: PlanConfig, models: ModelBytes) -> Plan:
    """Returns the memory that a run needs on its GPUs."""
    per_step, budget, capacity = rows_per_step(config, plan), config.ppo.micro_batch_tokens, plan.gpu_memory * GIB
    configured = config.ppo.micro_batch_size if budget is None else max(1, budget // models.row.num_tokens)
    fitting = (
        number for number in range(per_step, 0, -1) if most_of(update_phases(config, plan, models, number)) <= capacity
    )
    return Plan(
        phases={**_first_phases(config, plan, models), **update_phases(config, plan, models, configured)},
        capacity=capacity,
        micro_batch_rows=min(configured, per_step),
        rows_per_step=per_step,
        largest_micro_batch_rows=next(fitting, 0),
        host=in_hosts_memory(
            models.policy,
            models.critic,
            spread_of(config, plan),
            has_reference=_has_reference(config),
            has_adapters=config.lora.rank is not None,
            keeps_copy=config.keeps_copy,
        ),
        num_processes=plan.num_gpus,
        host_capacity=None if plan.host_memory is None else plan.host_memory * GIB,
    )


def rows_per_step(config: RunConfig, plan: PlanConfig) -> int:
    """Returns the rows of the policy's optimizer step in one process."""
    return -(-config.num_groups * config.group_size // (config.ppo.num_minibatches * plan.num_gpus))


def episodes_side_by_side(config: RunConfig, plan: PlanConfig) -> tuple[int, int]:
    """Returns how many episodes one process plays at a time in training, and in an evaluation.

    Worlds are evaluated one after another, on levels that processes share; groups are never split.
    """
    evaluated = max(config.num_eval_episodes, config.num_val_episodes if config.eval_every > 0 else 0)
    of_training = -(-config.num_groups // plan.num_gpus) * config.group_size if config.num_iterations else 0
    return of_training, min(MAX_PARALLEL, -(-evaluated // plan.num_gpus))


def spread_of(config: RunConfig, plan: PlanConfig, *, is_fused: bool = True) -> Spread:
    """Returns how a run's models are distributed over its GPUs.

    Raises:
        ConfigError: If the run's engine does not go with that many GPUs, or with what it trains.
    """
    environment = {"WORLD_SIZE": str(plan.num_gpus)}  # as accelerate would start it, whatever started this process
    require_engine(
        config.engine,
        num_groups=config.num_groups,
        has_adapters=config.lora.rank is not None,
        critic_trunk=config.algorithm.critic_trunk,
        environment=environment,
    )
    engine = engine_name(config.engine, environment)
    return Spread(
        engine=engine,
        num_processes=plan.num_gpus,
        compute_bytes=FLOAT32 if config.dtype == "float32" else 2,
        is_fused=is_fused,
        offloads_reference=config.memory.offload_reference and engine != "fsdp2",
        offloads_optimizer=config.memory.offload_optimizer and engine != "fsdp2",
    )


def update_phases(
    config: RunConfig, plan: PlanConfig, models: ModelBytes, num_rows: int, *, is_fused: bool = True
) -> Phases:
    """Returns the phases of an update with micro-batches of so many of the longest rows, or of all that there are."""
    spread, num_turns = spread_of(config, plan, is_fused=is_fused), models.row.num_turns
    num_episodes = config.num_groups * config.group_size
    # The passes before an update are over the whole batch, not over an optimizer step's rows
    evaluated = models.policy_evaluation(min(num_rows, -(-num_episodes // plan.num_gpus)) * num_turns)
    phases = {
        "evaluate": _held(config, plan, models, spread, "reference")
        | evaluated.parts
        | {"gathered": gathered(models.policy, spread, is_trained=False)}
    }
    trained = [("policy", models.policy, config.ppo.num_minibatches, models.policy_training)]
    if models.critic is not None and config.algorithm.critic_config is not None:
        num_steps = config.algorithm.critic_config.num_minibatches
        trained.append(("critic", models.critic, num_steps, models.critic_training))
    for who, model, num_minibatches, passed in trained:
        per_step = -(-num_episodes // (num_minibatches * plan.num_gpus))
        rows = min(num_rows, per_step)
        held_here, found = _held(config, plan, models, spread, cast(AtHand, who)), passed(rows * num_turns)
        num_micro_batches, recomputes = -(-per_step // rows), config.memory.gradient_checkpointing
        step_gradients = 0.0 if spread.has_buckets else FLOAT32 * model.num_trained / spread.num_shards
        phases[f"{who} update"] = {
            **held_here,
            "gradients": gradients_beside(found, model, spread, num_micro_batches=num_micro_batches),
            **found.parts,
            "gathered": gathered(model, spread, is_trained=True, recomputes_layers=recomputes),
        }
        phases[f"{who} step"] = {**held_here, "gradients": step_gradients + step_extras(model, spread)}
    if config.acts_on_copy:  # which samples while the update runs
        sampled = _first_phases(config, plan, models)["sample"]
        for parts in phases.values():
            parts |= {name: parts.get(name, 0.0) + sampled[name] for name in ("KV cache", "activations", "logits")}
    return phases


def _first_phases(config: RunConfig, plan: PlanConfig, models: ModelBytes) -> Phases:
    """Returns the start of a run, where FSDP2 has whole models before it shards them, and the sampling of episodes."""
    spread, row, policy = spread_of(config, plan), models.row, models.policy
    of_training, of_evaluation = episodes_side_by_side(config, plan)
    longer = max(0, config.evaluated_sampling.max_new_tokens - config.sampling.max_new_tokens)
    lengths = [(max(1, of_training), row.num_tokens), (of_evaluation, row.num_tokens + row.num_turns * longer)]
    num_rows = max(1, of_training, of_evaluation)
    shown = max(row.first.num_tokens, row.later.num_tokens) / row.tokens_per_turn
    sample = _held(config, plan, models, spread) | {
        "KV cache": max(
            kv_cache(policy, spread, num_rows=number, num_tokens=length, num_layers=models.num_layers)
            for number, length in lengths
        ),
        "activations": models.prefill(num_rows * shown).most,
        "logits": float(num_rows * policy.vocab_size * (spread.compute_bytes + SAMPLER_COPIES * FLOAT32)),
        "gathered": float(spread.num_shards > 1) * FLOAT32 * policy.largest_weight,  # for the copy that samples
    }
    if spread.engine != "fsdp2":
        return {"sample": sample}
    whole = replace(spread, engine="ddp", num_processes=1)
    start = {
        "weights": whole.kept(policy),
        "sampler": float(policy.num_parameters * spread.compute_bytes),
        "reference": float(_has_reference(config) * FLOAT32 * policy.num_trained),
        "critic": float(FLOAT32 * models.critic.num_trained) if models.critic is not None else 0.0,
    }
    return {"start": start | _fixed(plan), "sample": sample}


def _held(
    config: RunConfig, plan: PlanConfig, models: ModelBytes, spread: Spread, at_hand: AtHand | None = None
) -> dict[str, float]:
    # A copy of the policy samples while it is trained; frozen weights are shared
    copy = {"sampler": float(models.policy.num_trained * spread.weight_bytes)} if config.acts_on_copy else {}
    return held(
        models.policy,
        models.critic,
        spread,
        has_reference=_has_reference(config),
        fixed=_fixed(plan) | copy,
        at_hand=at_hand,
    )


def _fixed(plan: PlanConfig) -> dict[str, float]:
    return {"vLLM": plan.vllm_memory * plan.gpu_memory * GIB, "reserved": plan.reserved * GIB}


def _has_reference(config: RunConfig) -> bool:
    return config.has_reference and config.lora.rank is None  # with adapters it is the policy without them
