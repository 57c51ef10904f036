"""Bytes per GPU and operations of a run's phases, as pure functions of sizes.

Source: of mixed precision's 16 bytes per weight, Rajbhandari et al., "ZeRO" (2020), section 3.1; here gradients are
added up in float32 as well. What passes hold for their backward pass is counted in `training.memory_plan.model_counts`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from training.config.run_config import RunConfig
from training.engines.host_memory import HostBytes
from training.memory_plan.model_counts import ModelShape, PassBytes
from training.memory_plan.plan_config import PlanConfig
from training.memory_plan.plan_rows import RowShape

FLOAT32 = 4
CACHE_CHUNK = 128
"""Tokens by which caches grow, see `agents.hf.cache`."""
SAMPLER_COPIES = 6
"""Float32 copies of a step's logits while a token is drawn: raw, some suppressed, log-probabilities, the race."""
ADAMW_COPIES = 2
"""Float32 copies of one weight while AdamW steps it, where no fused kernel does."""

AtHand = Literal["reference", "policy", "critic"]
"""Whose part of what may wait in the host's memory a device holds in a phase."""

PARTS = (
    "weights",
    "sampler",
    "masters",
    "Adam",
    "gradients",
    "reference",
    "critic",
    "activations",
    "logits",
    "KV cache",
    "buckets",
    "gathered",
    "vLLM",
    "reserved",
)
FORWARD, BACKWARD = 2, 4
"""Operations per weight and token, multiplications and additions (Kaplan et al. 2020, table 1)."""


@dataclass(frozen=True, kw_only=True)
class Spread:
    """How models lie on GPUs.

    Attributes:
        engine: The run's: one process alone; DDP, with a whole model on each; or FSDP2, spread over them.
        num_processes: GPUs, one process each.
        compute_bytes: Bytes of a weight as passes take it (`--dtype`).
        is_fused: Whether one kernel takes a whole step of AdamW, as on GPUs.
        offloads_reference: Whether the reference waits in the host's memory. Shards do not.
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
        """Whether gradients are summed over processes in float32 buckets, which DDP keeps from its start to its end."""
        return self.engine == "ddp" and self.num_processes > 1

    @property
    def num_shards(self) -> int:
        """GPUs that share one copy of weights, gradients and optimiser states."""
        return self.num_processes if self.engine == "fsdp2" else 1

    @property
    def weight_bytes(self) -> int:
        """Bytes of a weight as it is kept: several processes keep float32, which stands for masters, too."""
        return self.compute_bytes if self.engine == "local" else FLOAT32

    @property
    def activation_bytes(self) -> int:
        """Bytes of most that passes keep: autocast leaves norms and sums between layers in float32; an upper bound."""
        return FLOAT32 if self.engine == "ddp" else self.compute_bytes

    @property
    def has_masters(self) -> bool:
        """Whether weights have float32 copies, by which they are stepped."""
        return self.weight_bytes < FLOAT32

    @property
    def has_acting_copy(self) -> bool:
        """Whether a whole model in `--dtype` is sampled from, beside the one that is trained."""
        return self.engine == "fsdp2" or self.compute_bytes != self.weight_bytes

    def kept(self, model: ModelShape) -> float:
        """Returns the bytes of a model's weights; a frozen tower is whole in each process."""
        shared = model.num_parameters - model.num_frozen_vision
        return self.weight_bytes * (shared / self.num_shards + model.num_frozen_vision)


@dataclass(frozen=True, kw_only=True)
class Passes:
    """What one model's passes over a micro-batch hold.

    Attributes:
        training: With a backward pass.
        evaluation: Without.
        layers: That without the head.
        num_micro_batches: Micro-batches of an optimiser step in each process.
        recomputes_layers: Whether the backward pass computes layers anew.
    """

    training: PassBytes
    evaluation: PassBytes
    layers: PassBytes
    num_micro_batches: int
    recomputes_layers: bool


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A part of an iteration, at its most.

    Attributes:
        name: What happens.
        parts: Bytes by part.
    """

    name: str
    parts: dict[str, float] = field(default_factory=dict)

    @property
    def total(self) -> float:
        """All of its bytes."""
        return sum(self.parts.values())


def held(
    policy: ModelShape,
    critic: ModelShape | None,
    spread: Spread,
    *,
    has_reference: bool,
    fixed: dict[str, float],
    at_hand: AtHand | None = None,
) -> dict[str, float]:
    """Returns what is there all through a phase.

    Args:
        policy: Its size.
        critic: The critic's; None without one.
        spread: How models lie on GPUs.
        has_reference: Whether there is a copy of the first policy; what is frozen is not copied.
        fixed: Bytes of parts that are no models.
        at_hand: Whose part of what waits in the host's memory otherwise is needed.
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
    """Returns the bytes of float32 masters, where weights have fewer bits, and of AdamW's two moments."""
    trained = model.num_trained / spread.num_shards
    return {"masters": spread.has_masters * FLOAT32 * trained, "Adam": 2 * FLOAT32 * trained}


def model_and_states(model: ModelShape, spread: Spread, *, has_states: bool = True) -> float:
    """Returns the bytes of a second model with what its optimiser keeps; what is frozen it shares with the first."""
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
    """Returns what each process keeps in the host's memory.

    Args:
        policy: Its size.
        critic: The critic's; None without one.
        spread: How models lie on GPUs.
        has_reference: Whether there is a copy of the first policy.
        has_adapters: Whether nothing else is trained and part of the run's state.
        keeps_copy: Whether a copy of that state is kept. It has twice what stands there under two names: embeddings
            that are the head, too, and what is frozen of policy and critic.
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
    """Returns the most bytes that gradients add to what a training pass holds at its most without them.

    They come into being while what was kept for them goes, so the most of both is less than the sum of their mosts; but
    from the second micro-batch of a step on, those of the first are there all along. Weights of few bits have gradients
    of few bits, which are added up in float32 behind each backward pass. DDP has a step's last ones in its buckets,
    into which each goes when it is whole: those of an only micro-batch are nowhere else.
    """
    whole = FLOAT32 * model.num_trained / spread.num_shards
    growing = spread.weight_bytes / spread.num_shards
    is_first = num_micro_batches == 1
    if spread.has_buckets and is_first:
        return float(FLOAT32 * model.largest_weight)
    if spread.has_masters:
        before = 0.0 if is_first else whole
        most = max(before + passed.most(growing), whole + growing * model.largest_weight)
    else:
        most = passed.most(growing) if is_first else whole + passed.most()
    return max(0.0, most - passed.most())


def step_extras(model: ModelShape, spread: Spread) -> float:
    """Returns what a step of AdamW takes for itself: nothing in a fused kernel.

    Elsewhere it takes copies of the weight it is at, and of all weights that it changes in place, lest it fail.
    """
    if spread.is_fused:
        return 0.0
    copies = 0 if spread.has_masters else model.num_trained
    return FLOAT32 * (ADAMW_COPIES * model.largest_weight + copies) / spread.num_shards


def gathered(model: ModelShape, spread: Spread, *, is_trained: bool, recomputes_layers: bool = False) -> float:
    """Returns what a pass of one of several GPUs puts together.

    FSDP2 gathers all that is in no decoder layer, and layer by layer the one that computes and the next one, in the
    type of passes; of the former and of one layer it holds whole gradients, too, and the larger of the two in float32
    while it is summed. Behind a pass nothing stays gathered. With DDP, where passes are in another type than weights,
    autocast keeps the trained ones in it until the pass is over, with gradients or without, and a backward pass needs
    the frozen ones beside adapters, too, unless layers are computed anew; a frozen tower is in none.
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
    """Returns the bytes of keys and values of episodes that are sampled side by side.

    One layer is there twice while it grows.
    """
    room = -(-num_tokens // CACHE_CHUNK) * CACHE_CHUNK
    return num_rows * room * policy.cached_per_token * spread.compute_bytes * (1 + 1 / num_layers)


def starting(
    policy: ModelShape, critic: ModelShape | None, spread: Spread, *, has_reference: bool, fixed: dict[str, float]
) -> Phase:
    """Returns the moment before FSDP2 spreads models out: each process has made all of them whole."""
    parts = {
        "weights": FLOAT32 * policy.num_parameters,
        "sampler": policy.num_parameters * spread.compute_bytes,
        "reference": has_reference * FLOAT32 * policy.num_trained,
        "critic": 0 if critic is None else FLOAT32 * critic.num_trained,
    }
    return Phase(name="start", parts={**parts, **fixed})


def sampling(
    always: dict[str, float], policy: ModelShape, spread: Spread, *, num_rows: int, cache: float, prefill: PassBytes
) -> Phase:
    """Returns the phase in which episodes are played; by the best policy in the last one's place, where one is kept.

    Args:
        always: What is held all through it.
        policy: Its size.
        spread: How models lie on GPUs.
        num_rows: Episodes side by side in one process.
        cache: Bytes of their keys and values.
        prefill: What a pass over an observation of each holds.
    """
    logits = num_rows * policy.vocab_size * (spread.compute_bytes + SAMPLER_COPIES * FLOAT32)
    parts = {
        "KV cache": cache,
        "activations": prefill.most(),
        "logits": logits,
        "gathered": float(spread.num_shards > 1) * FLOAT32 * policy.largest_weight,  # for the copy that samples
    }
    return Phase(name="sample", parts=always | parts)


def evaluating(always: dict[str, float], model: ModelShape, spread: Spread, passes: Passes) -> Phase:
    """Returns the phase in which models say what they think of the rows before the update."""
    activations = min(passes.layers.most(), passes.evaluation.most())
    logits = passes.evaluation.most() - activations
    collected = gathered(model, spread, is_trained=False)
    return Phase(name="evaluate", parts=always | {"activations": activations, "logits": logits, "gathered": collected})


def updating(always: dict[str, float], model: ModelShape, spread: Spread, passes: Passes, *, what: str) -> Phase:
    """Returns the phase of forward and backward passes of one model."""
    gradients = gradients_beside(passes.training, model, spread, num_micro_batches=passes.num_micro_batches)
    collected = gathered(model, spread, is_trained=True, recomputes_layers=passes.recomputes_layers)
    return Phase(
        name=f"{what} update", parts=always | {"gradients": gradients, **_split(passes.training), "gathered": collected}
    )


def stepping(always: dict[str, float], model: ModelShape, spread: Spread, *, what: str) -> Phase:
    """Returns the phase of an optimiser's step, by gradients that DDP has in its buckets."""
    gradients = 0.0 if spread.has_buckets else FLOAT32 * model.num_trained / spread.num_shards
    return Phase(name=f"{what} step", parts=always | {"gradients": gradients + step_extras(model, spread)})


def _split(passed: PassBytes) -> dict[str, float]:
    """Returns a pass at its most: what layers hold, and what logits do, which are there before the first gradient."""
    activations = max(passed.kept, *passed.peaks[1:], 0.0)
    return {"activations": activations, "logits": max(0.0, passed.most() - activations)}


@dataclass(frozen=True, kw_only=True)
class Work:
    """What an iteration takes at most, on all GPUs together.

    Attributes:
        num_episodes: Episodes learnt from.
        sampled_tokens: Tokens drawn, where every response is as long as it may be.
        trained_tokens: Tokens of rows that go through the policy with a backward pass, prompts included.
        num_images: Pictures shown.
        training_flops: Operations of the update, and of the passes before it.
        training_s: Seconds they take at the utilization that is expected; an estimate.
        iteration_s: Seconds an iteration may take.
        needed_tokens_per_s: Sampled tokens a second that are needed then; None where the update alone takes longer.
    """

    num_episodes: int
    sampled_tokens: int
    trained_tokens: int
    num_images: int
    training_flops: float
    training_s: float
    iteration_s: float
    needed_tokens_per_s: float | None


def work_of(config: RunConfig, plan: PlanConfig, row: RowShape, policy: ModelShape, critic: ModelShape | None) -> Work:
    """Returns what an iteration of a run takes."""
    num_episodes = config.num_groups * config.group_size
    num_played = num_episodes * config.algorithm.max_sampling_rounds
    sampled = num_played * row.num_turns * row.num_response_tokens
    flops = num_episodes * _update_flops(config, row, policy, has_critic=critic is not None)
    training_s = flops / (plan.num_gpus * plan.gpu_tflops * 1e12 * plan.utilization)
    iteration_s = plan.hours * 3600 / max(1, config.num_iterations)
    left_s = iteration_s - training_s
    return Work(
        num_episodes=num_episodes,
        sampled_tokens=sampled,
        trained_tokens=num_episodes * row.num_tokens * config.ppo.num_epochs,
        num_images=num_played * row.num_images,
        training_flops=flops,
        training_s=training_s,
        iteration_s=iteration_s,
        needed_tokens_per_s=sampled / left_s if left_s > 0 else None,
    )


def _update_flops(config: RunConfig, row: RowShape, policy: ModelShape, *, has_critic: bool) -> float:
    """Returns the operations of one row in the passes before the update and in the update."""
    one_pass = _forward_flops(row, policy)
    ppo, critic = config.ppo, config.algorithm.critic_config
    num_before = (ppo.old_logprobs == "trainer") + config.has_reference + has_critic
    num_trained = ppo.num_epochs + (critic.num_epochs if critic is not None else 0)
    trained = FORWARD + BACKWARD + FORWARD * config.memory.gradient_checkpointing
    return one_pass * (num_before + num_trained * trained / FORWARD)


def _forward_flops(row: RowShape, model: ModelShape) -> float:
    """Returns the operations of one row's forward pass: every token through the language model, responses to the head.

    What attention takes between tokens is left out, as is usual below some ten thousand tokens.
    """
    num_head = model.num_head or model.num_embeddings
    language = row.num_tokens * model.num_language + row.num_turns * row.num_response_tokens * num_head
    return float(FORWARD * (language + row.num_patches * model.num_vision))
