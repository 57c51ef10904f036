"""What the trainer asks of models: log-probabilities of sampled tokens, and values of prefixes.

Both run over whole rows in one forward pass, which is the `forward` of a module: what wraps one (DDP, FSDP2) sees it.
Nothing here knows how large the model is.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from agents.hf.family import joined
from agents.hf.model_families import family_of
from agents.hf.row_passes import row_hidden_states
from training.batch import Batch, turns_ahead
from training.engines.frozen import copied_but_frozen
from training.engines.logprobs import EntropyMode, chosen_logprobs, tokens_per_chunk
from training.engines.row_pass import RowPass, recomputed_layers


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
    with top-p below 1 the gap to `sampler_logprobs` is real and is what truncated importance sampling corrects.
    Temperature 0 (greedy) is read as 1.

    Args:
        model: A checkpoint's model with its head.
        batch: Rows of `(B, T)` token ids and their pictures, on any device.
        temperature: Of the sampler.
        suppressed_ids: Tokens that the sampler never draws, as in `ChatEncoder.suppressed_ids`.
        entropy_mode: Whether entropies are computed, and with gradients, see `training.engines.logprobs`.
        row_pass: How rows go through the model; None for one forward pass like any other.

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
    """A policy as the update sees it: rows in, log-probabilities out.

    Args:
        model: A checkpoint's model with its head, shared and not copied.
        temperature: Of the sampler.
        suppressed_ids: Tokens that the sampler never draws.
        row_pass: How rows go through it.
    """

    def __init__(
        self, model: Any, *, temperature: float, suppressed_ids: list[int], row_pass: RowPass | None = None
    ) -> None:
        super().__init__()
        self.model, self.temperature, self.suppressed_ids = model, temperature, suppressed_ids
        self.row_pass = row_pass

    def forward(self, batch: Batch, entropy_mode: EntropyMode) -> tuple[Tensor, Tensor]:
        """Returns what `token_logprobs` does."""
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
        before_BT: Of the prefix before each generated token.
        turn_ends_BK: Of the prefix through each turn's last token, whose outcome is not seen yet.
        final_B: Of the whole row, for rows that end with their final observation and the opening of a next answer.
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

    The head speaks in standard deviations from a mean, both taken once from the first returns it is shown
    (`calibrate`), so that one learning rate suits rewards of any size.

    Args:
        policy: The model to start from; its weights are copied, but for frozen ones, which are shared.
        row_pass: How rows go through it.
        trunk: `"policy"` copies nothing and reads the policy's hidden states, whose weights are none of the critic's.
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
            vars(self)["model"] = policy.model  # as no part of it: what it trains, saves and moves is its head alone
            self.head = nn.Sequential(nn.Linear(width, width), nn.GELU(), _zeros(nn.Linear(width, 1)))
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("std", torch.ones(()))
        self.register_buffer("is_calibrated", torch.zeros((), dtype=torch.bool))
        self.head.to(dtype=policy.dtype)
        self.to(policy.device)  # scale and mean with it; they stay float32, for rewards are

    def forward(self, batch: Batch) -> Values:
        """Returns what `token_values` does."""
        return token_values(self, batch)

    def hidden_states(self, batch: Batch) -> Tensor:
        """Returns the last hidden states of a batch, float[B, T, D]; the policy's are without gradients."""
        if self.trunk == "own":
            return hidden_states(self, batch, self.row_pass)
        with torch.no_grad():
            return hidden_states(self, batch, self.row_pass)

    def values(self, hidden_BTD: Tensor) -> Tensor:
        """Returns the value at each hidden state, float32[B, T], in units of reward."""
        scores_BT: Tensor = self.head(hidden_BTD).float()[..., 0]
        return scores_BT * self.std + self.mean

    def calibrate(self, returns_N: Tensor) -> None:
        """Takes the scale of the values from these returns, once; later calls change nothing.

        Returns that are not finite are left out; where no finite scale comes of the others, the next call takes it.
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
        """Where the weights are."""
        return self.mean.device

    @property
    def dtype(self) -> torch.dtype:
        """Type of the weights."""
        return next(self.head.parameters()).dtype


def _zeros(layer: nn.Linear) -> nn.Linear:
    """Returns a layer that says 0."""
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def _scatter(values_N: Tensor, mask_BT: Tensor) -> Tensor:
    """Returns values at the mask's positions and 0 elsewhere."""
    return torch.zeros(mask_BT.shape, dtype=values_N.dtype, device=values_N.device).masked_scatter(mask_BT, values_N)
