"""The models of the update: log-probabilities of sampled tokens, values of prefixes, and frozen weights.

With a vocabulary of 152k, the logits of one token take 0.6 MB, and autograd keeps several copies. So logits exist for
only one chunk of tokens at a time, and the backward pass recomputes them from the hidden states. If they are few, as
with a small vocabulary, one copy is kept.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

from agents.hf.family import ImageFeatures, ProcessedImage, joined
from agents.hf.model_families import family_of, vision_parts
from agents.hf.row_passes import can_share_prefixes, row_hidden_states
from training.batch import Batch, turns_ahead
from training.config.update_config import MemoryConfig
from vlm_envs.errors import ConfigError

CHUNK_BYTES = 256 * 2**20
"""Maximum bytes of float32 logits at a time, in one copy."""

KEPT_SHARE = 1 / 8
"""Fraction of a chunk up to which logits are kept for the backward pass, which is faster than recomputing them."""

EntropyMode = Literal["none", "value", "graph"]
"""Computation of entropies: none, without gradients (for logging), or with gradients (for an entropy bonus)."""

Module = TypeVar("Module", bound=nn.Module)


def hidden_states(model: Any, batch: Batch, row_pass: RowPass | None = None) -> Tensor:
    """Returns the last hidden states of a batch, float[B, T, D], from a policy or a critic."""
    features = joined(batch.features).to(model.device) if batch.features else None
    ids_BT, mask_BT = batch.input_ids_BT.to(model.device), batch.attention_mask_BT.to(model.device)
    row_pass = row_pass or RowPass()
    with recomputed_layers(model) if row_pass.recomputes_layers and torch.is_grad_enabled() else nullcontext():
        return row_hidden_states(
            model,
            ids_BT,
            mask_BT,
            batch.images,
            features,
            packs_rows=row_pass.packs_rows,
            shares_prefixes=row_pass.shares_prefixes,
        )


class _Scores(torch.autograd.Function):
    """Log-probabilities of chosen tokens, and entropies, with a minimal number of passes over the vocabulary.

    With p the distribution of logits x over a temperature T, and H its entropy,
    `d log p_c / d x_j = (1[j = c] - p_j) / T` and `d H / d x_j = -p_j (log p_j + H) / T`.
    """

    @staticmethod
    def forward(
        ctx: Any,
        logits_nV: Tensor,
        chosen_n: Tensor,
        suppressed: Tensor,
        temperature: float,
        entropy_mode: EntropyMode,
    ) -> tuple[Tensor, Tensor]:
        bias_V = torch.zeros(logits_nV.shape[1], device=logits_nV.device).index_fill_(0, suppressed, -torch.inf)
        logprobs_nV = torch.add(bias_V, logits_nV, alpha=1 / temperature).log_softmax(-1)
        logprobs_n = logprobs_nV.gather(1, chosen_n[:, None])[:, 0]
        probabilities_nV = logprobs_nV.exp()
        logprobs_nV.index_fill_(1, suppressed, 0.0)  # 0 * -inf would be NaN
        entropy_n = torch.zeros_like(logprobs_n)
        if entropy_mode != "none":
            entropy_n = -(probabilities_nV * logprobs_nV).sum(-1)  # not a matrix product, which autocast would round
        has_gradient = entropy_mode == "graph"
        ctx.save_for_backward(chosen_n, probabilities_nV, *([logprobs_nV, entropy_n] if has_gradient else []))
        ctx.temperature, ctx.dtype = temperature, logits_nV.dtype
        if not has_gradient:
            ctx.mark_non_differentiable(entropy_n)
        return logprobs_n, entropy_n

    @staticmethod
    def backward(ctx: Any, *grads_n: Tensor) -> tuple[Tensor, None, None, None, None]:
        grad_n, entropy_grad_n = (grad / ctx.temperature for grad in grads_n)
        chosen_n, probabilities_nV, *rest = ctx.saved_tensors
        grad_nV = probabilities_nV * -grad_n[:, None]
        if rest:
            logprobs_nV, entropy_n = rest
            grad_nV -= entropy_grad_n[:, None] * probabilities_nV * (logprobs_nV + entropy_n[:, None])
        grad_nV.scatter_add_(1, chosen_n[:, None], grad_n[:, None])
        return grad_nV.to(ctx.dtype), None, None, None, None


def chosen_logprobs(
    logits: Callable[[Tensor], Tensor],
    hidden_ND: Tensor,
    chosen_N: Tensor,
    *,
    temperature: float,
    suppressed_ids: list[int],
    entropy_mode: EntropyMode,
    chunk_tokens: int,
) -> tuple[Tensor, Tensor]:
    """Returns log-probabilities of N tokens and the entropies of their distributions.

    In addition to hidden states, autograd keeps a few numbers per token, or the full distributions of few tokens.

    Args:
        logits: Maps hidden states `(n, D)` to logits `(n, V)`.
        hidden_ND: The hidden state before each token.
        chosen_N: int64, the tokens.
        temperature: Divides the logits; 0 (greedy) counts as 1.
        suppressed_ids: Tokens that are never chosen.
        entropy_mode: `"none"` gives zeros, `"value"` has no gradient.
        chunk_tokens: Maximum number of tokens whose logits exist at a time, see `tokens_per_chunk`.

    Returns:
        (logprobs_N, entropy_N), float32 on the hidden states' device, in nats.
    """
    suppressed = torch.tensor(suppressed_ids, dtype=torch.long, device=hidden_ND.device)

    def scored(hidden_nD: Tensor, chosen_n: Tensor) -> tuple[Tensor, Tensor]:
        settings = (suppressed, temperature or 1.0, entropy_mode)
        scores = _Scores.apply(logits(hidden_nD), chosen_n, *settings)  # type: ignore[no-untyped-call]
        return cast(tuple[Tensor, Tensor], scores)

    if not torch.is_grad_enabled() or len(chosen_N) <= chunk_tokens * KEPT_SHARE:
        run = scored
    else:
        run = partial(checkpoint, scored, use_reentrant=False, preserve_rng_state=False)
    chunks = zip(hidden_ND.split(chunk_tokens), chosen_N.split(chunk_tokens), strict=True)
    logprobs_N, entropy_N = (torch.cat(parts) for parts in zip(*(run(*chunk) for chunk in chunks), strict=True))
    return logprobs_N, entropy_N


def tokens_per_chunk(vocab_size: int) -> int:
    """Returns the maximum number of tokens whose logits may exist at a time, at least 1."""
    return max(1, CHUNK_BYTES // (4 * vocab_size))


def token_logprobs(
    model: Any,
    batch: Batch,
    *,
    temperature: float,
    suppressed_ids: list[int],
    entropy_mode: EntropyMode = "graph",
    row_pass: RowPass | None = None,
) -> tuple[Tensor, Tensor]:
    """Returns log-probabilities and entropies at every generated token, 0 elsewhere.

    The distribution is the sampler's: logits over temperature, suppressed tokens impossible. Top-p is not applied, so
    with top-p below 1 there is a real difference to `sampler_logprobs`, which truncated importance sampling corrects.
    Temperature 0 (greedy) counts as 1.

    Args:
        model: A checkpoint's model with its head.
        batch: Rows of `(B, T)` token ids and their images, on any device.
        temperature: Temperature of the sampler.
        suppressed_ids: Tokens that the sampler never draws, as in `ChatEncoder.suppressed_ids`.
        entropy_mode: See `EntropyMode`.
        row_pass: Settings of the forward pass; None for a plain one.

    Returns:
        (logprobs_BT, entropy_BT), float32 on the model's device, in nats, with gradients.
    """
    mask_BT = (batch.turn_index_BT >= 0).to(model.device)
    family = family_of(model)
    logprobs_N, entropy_N = chosen_logprobs(
        lambda hidden_ND: family.logits(model, hidden_ND),
        hidden_states(model, batch, row_pass)[:, :-1][mask_BT[:, 1:]],
        batch.input_ids_BT.to(model.device)[mask_BT],
        temperature=temperature,
        suppressed_ids=suppressed_ids,
        entropy_mode=entropy_mode,
        chunk_tokens=tokens_per_chunk(model.config.get_text_config().vocab_size),
    )
    return _scatter(logprobs_N, mask_BT), _scatter(entropy_N, mask_BT)


class PolicyModel(nn.Module):
    """A policy for the update: maps rows to log-probabilities.

    Args:
        model: A checkpoint's model with its head, shared and not copied.
        temperature: Temperature of the sampler.
        suppressed_ids: Tokens that the sampler never draws.
        row_pass: Settings of the forward pass.
    """

    def __init__(
        self, model: Any, *, temperature: float, suppressed_ids: list[int], row_pass: RowPass | None = None
    ) -> None:
        super().__init__()
        self.model, self.temperature, self.suppressed_ids = model, temperature, suppressed_ids
        self.row_pass = row_pass

    def forward(self, batch: Batch, entropy_mode: EntropyMode) -> tuple[Tensor, Tensor]:
        """Returns log-probabilities and entropies, see `token_logprobs`."""
        return token_logprobs(
            self.model,
            batch,
            temperature=self.temperature,
            suppressed_ids=self.suppressed_ids,
            entropy_mode=entropy_mode,
            row_pass=self.row_pass,
        )


class Values(NamedTuple):
    """V of a batch's prefixes, float32, 0 where a row has no such prefix.

    Attributes:
        before_BT: V of the prefix before each generated token.
        turn_ends_BK: V of the prefix through each turn's last token, before its outcome is observed.
        final_B: V of the whole row, for rows that end with a final observation and the start of the next response.
    """

    before_BT: Tensor
    turn_ends_BK: Tensor
    final_B: Tensor


def token_values(critic: ValueModel, batch: Batch) -> Values:
    """Returns V before each generated token, through each turn's end and after a final observation, with gradients."""
    turn_index_BT = batch.turn_index_BT.to(critic.device)
    mask_BT = turn_index_BT >= 0
    through_BT = critic.values(critic.hidden_states(batch))
    before_BT = torch.cat([torch.zeros_like(through_BT[:, :1]), through_BT[:, :-1]], dim=1)
    num_turns = batch.turn_rewards_BK.shape[1]
    ahead_BT = turns_ahead(turn_index_BT, num_turns)
    following_BT = torch.cat([ahead_BT[:, 1:], torch.full_like(ahead_BT[:, :1], num_turns)], dim=1)
    ends_BT = mask_BT & (turn_index_BT != following_BT)
    turn_ends_BK = torch.zeros(batch.num_rows, num_turns, device=critic.device)
    rows, columns = ends_BT.nonzero(as_tuple=True)
    turn_ends_BK = turn_ends_BK.index_put((rows, turn_index_BT[rows, columns]), through_BT[rows, columns])
    last_B = (batch.attention_mask_BT.sum(-1) - 1).clamp(min=0).to(critic.device)
    final_B = through_BT.gather(1, last_B[:, None])[:, 0] * batch.has_final_B.to(critic.device)
    return Values(before_BT=before_BT * mask_BT, turn_ends_BK=turn_ends_BK, final_B=final_B)


class ValueModel(nn.Module):
    """A critic: the policy's architecture with a scalar head in place of the vocabulary, or a head on the policy.

    The head predicts standardized values, with mean and standard deviation from the first returns (`calibrate`), so
    that one learning rate suits rewards of any scale.

    Args:
        policy: The model to start from; its weights are copied, except frozen ones, which are shared.
        row_pass: Settings of the forward pass.
        trunk: `"policy"` copies nothing and reads the policy's hidden states; the policy's weights do not belong to
            the critic.
    """

    mean: Tensor
    std: Tensor
    is_calibrated: Tensor

    def __init__(
        self, policy: Any, row_pass: RowPass | None = None, *, trunk: Literal["own", "policy"] = "own"
    ) -> None:
        super().__init__()
        self.row_pass, self.trunk = row_pass, trunk
        width = policy.config.text_config.hidden_size
        if trunk == "own":
            self.model = copied_but_frozen(policy.model)
            self.head: nn.Module = _zeros(nn.Linear(width, 1))
        else:
            vars(self)["model"] = policy.model  # not a submodule: only the head is trained, saved, and moved
            self.head = nn.Sequential(nn.Linear(width, width), nn.GELU(), _zeros(nn.Linear(width, 1)))
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("std", torch.ones(()))
        self.register_buffer("is_calibrated", torch.zeros((), dtype=torch.bool))
        self.head.to(dtype=policy.dtype)
        self.to(policy.device)  # moves mean and std, too, which stay float32 like rewards

    def forward(self, batch: Batch) -> Values:
        """Returns values, see `token_values`."""
        return token_values(self, batch)

    def hidden_states(self, batch: Batch) -> Tensor:
        """Returns the last hidden states of a batch, float[B, T, D], without gradients if they are the policy's."""
        if self.trunk == "own":
            return hidden_states(self, batch, self.row_pass)
        with torch.no_grad():
            return hidden_states(self, batch, self.row_pass)

    def values(self, hidden_BTD: Tensor) -> Tensor:
        """Returns the value at each hidden state, float32[B, T], in reward units."""
        scores_BT: Tensor = self.head(hidden_BTD).float()[..., 0]
        return scores_BT * self.std + self.mean

    def calibrate(self, returns_N: Tensor) -> None:
        """Sets mean and scale of the values from these returns, once; later calls have no effect.

        Non-finite returns are ignored; if the others give no finite scale, the next call sets it.
        """
        finite_N = returns_N[returns_N.isfinite()]
        if self.is_calibrated or len(finite_N) < 2:
            return
        mean, std = finite_N.mean(), finite_N.std()
        if mean.isfinite() and std.isfinite():
            self.mean.copy_(mean)
            self.std.copy_(std.clamp(min=1e-3))
            self.is_calibrated.fill_(True)

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return self.mean.device

    @property
    def dtype(self) -> torch.dtype:
        """Data type of the weights."""
        return next(self.head.parameters()).dtype


def _zeros(layer: nn.Linear) -> nn.Linear:
    """Returns a layer after setting its weights to 0."""
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def _scatter(values_N: Tensor, mask_BT: Tensor) -> Tensor:
    """Returns values at the mask's positions and 0 elsewhere."""
    return torch.zeros(mask_BT.shape, dtype=values_N.dtype, device=values_N.device).masked_scatter(mask_BT, values_N)


@dataclass(frozen=True, kw_only=True)
class RowPass:
    """Settings of forward passes over complete rows.

    Attributes:
        recomputes_layers: Whether to keep only the inputs of layers for the backward pass (gradient checkpointing).
        packs_rows: Whether to concatenate rows into one without padding.
        shares_prefixes: Whether to compute common prefixes of rows only once, without padding.
    """

    recomputes_layers: bool = False
    packs_rows: bool = False
    shares_prefixes: bool = False


def row_pass_of(model: Any, memory: MemoryConfig) -> RowPass:
    """Returns the settings of a model's forward passes.

    Raises:
        ConfigError: If packing or flash attention is set for a family whose images need bidirectional attention
            masks, or if prefix sharing is set but not supported.
    """
    can_pack, is_flash = not family_of(model).keeps_images_whole, "flash" in str(model.config._attn_implementation)
    if memory.packing == "on" and not can_pack:
        raise ConfigError(
            f"--memory.packing on: rows of {model.config.model_type} cannot be packed, because its image tokens "
            "attend to each other in both directions. Use --memory.packing off."
        )
    if is_flash and not can_pack:
        raise ConfigError(
            f"--memory.attention {model.config._attn_implementation}: flash attention takes no masks, but "
            f"{model.config.model_type} needs them, because its image tokens attend to each other in both directions. "
            "Use --memory.attention sdpa."
        )
    packs = (memory.packing == "on" and memory.prefix_sharing != "on") or (
        memory.packing == "auto" and is_flash and can_pack
    )
    shares = memory.prefix_sharing == "on" or (memory.prefix_sharing == "auto" and not packs)
    if memory.prefix_sharing == "on" and not can_share_prefixes(model):
        raise ConfigError(
            f"--memory.prefix-sharing on: {model.config.model_type} with the attention "
            f"{model.config._attn_implementation} cannot share prefixes: this requires --memory.attention sdpa and "
            "causal attention. Use --memory.prefix-sharing auto."
        )
    return RowPass(
        recomputes_layers=memory.gradient_checkpointing,
        packs_rows=packs,
        shares_prefixes=shares and can_share_prefixes(model),
    )


@contextmanager
def recomputed_layers(model: nn.Module) -> Iterator[None]:
    """Enables gradient checkpointing of a model's layers for forward passes within the block.

    transformers' own switch requires training mode, which also enables the checkpoint's dropout, and stays on while
    the same model samples. Here only the layers are in training mode, and only within the block; recomputation in the
    backward pass does not check the mode.
    """
    layers: list[Any] = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    before = [(layer.training, layer.gradient_checkpointing) for layer in layers]
    for layer in layers:
        layer.training = layer.gradient_checkpointing = True
        layer._gradient_checkpointing_func = partial(checkpoint, use_reentrant=False)
    try:
        yield
    finally:
        for layer, (was_training, had_checkpoints) in zip(layers, before, strict=True):
            layer.training, layer.gradient_checkpointing = was_training, had_checkpoints


def freeze_vision_tower(model: Any) -> None:
    """Freezes the vision tower and the projector."""
    for part in vision_parts(model):
        part.requires_grad_(False)


def has_frozen_vision_tower(model: Any) -> bool:
    """Returns whether vision tower and projector are frozen, so that image features do not change."""
    return not any(weight.requires_grad for part in vision_parts(model) for weight in part.parameters())


def frozen_tower(model: Any) -> list[nn.Parameter]:
    """Returns the weights of a frozen vision tower, which all copies of the model share; empty if it is trained."""
    if not has_frozen_vision_tower(model):
        return []
    return [weight for part in vision_parts(model) for weight in part.parameters()]


def copied_but_frozen(module: Module) -> Module:
    """Returns a copy of a module that shares frozen weights with the original."""
    return copy.deepcopy(module, {id(weight): weight for weight in module.parameters() if not weight.requires_grad})


def share_frozen(module: Module, owner: nn.Module) -> Module:
    """Replaces a module's frozen weights by the equal ones of another module; returns the module."""
    for name, weight in owner.named_parameters(remove_duplicate=False):
        if not weight.requires_grad:
            parent, _, leaf = name.rpartition(".")
            setattr(module.get_submodule(parent), leaf, weight)
    return module


def require_same_frozen(module: nn.Module, owner: nn.Module) -> None:
    """Checks that a module's frozen weights equal those of another, so that they can be shared.

    Raises:
        ConfigError: If one differs.
    """
    for name, weight in owner.named_parameters(remove_duplicate=False):
        own = module.get_parameter(name)
        if not weight.requires_grad and not torch.equal(own.to(weight.device, weight.dtype), weight):
            raise ConfigError(
                f"The reference's {name} differs from the policy's, but with --memory.freeze-vision-tower both share "
                "one vision tower. Train without it, or use the initial model as the reference (no --reference; in a "
                "stage, reference reset)."
            )


class SeenPictures:
    """A cache of image features of a frozen vision tower, in host memory and in the tower's data type.

    Args:
        model: A model of a supported family.
    """

    def __init__(self, model: Any) -> None:
        self._model, self._family = model, family_of(model)
        self._features: dict[bytes, ImageFeatures] = {}

    @torch.no_grad()
    def features(self, images: Sequence[ProcessedImage]) -> tuple[ImageFeatures, ...]:
        """Returns the features of each image."""
        unseen = list({image.key: image for image in images if image.key not in self._features}.values())
        if unseen:
            seen, start = self._family.image_features(self._model, unseen).to("cpu"), 0
            for image in unseen:
                self._features[image.key] = seen.select(slice(start, start + image.num_tokens))
                start += image.num_tokens
        return tuple(self._features[image.key] for image in images)

    def forget(self) -> None:
        """Clears the cache."""
        self._features.clear()
