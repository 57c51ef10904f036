"""Log-probabilities and entropies of chosen tokens, a chunk of logits at a time.

At a vocabulary of 152k the logits of one token take 0.6 MB, and autograd keeps several copies of them. So logits exist
for one chunk of tokens only: what the backward pass needs of them it computes anew from the hidden states.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from training.algorithms.functional.losses import entropy

CHUNK_BYTES = 256 * 2**20
"""Float32 logits that exist at a time, in one copy."""

EntropyMode = Literal["none", "value", "graph"]
"""Whether entropies are wanted: not, as numbers (logged), or with their gradient (paid for)."""


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
    """Returns log-probabilities of N tokens and the entropies of what they were chosen from.

    Beside the hidden states autograd keeps a few numbers a token.

    Args:
        logits: From hidden states `(n, D)` to logits `(n, V)`.
        hidden_ND: The hidden state before each token.
        chosen_N: int64, the tokens.
        temperature: Divides the logits; 0 (greedy) is read as 1.
        suppressed_ids: Tokens that are never chosen.
        entropy_mode: `"none"` gives zeros, `"value"` has no gradient.
        chunk_tokens: Tokens whose logits may exist at a time, see `tokens_per_chunk`.

    Returns:
        (logprobs_N, entropy_N), float32 on the hidden states' device, in nats.
    """
    suppressed = torch.tensor(suppressed_ids, dtype=torch.long, device=hidden_ND.device)

    def scored(hidden_nD: Tensor, chosen_n: Tensor) -> tuple[Tensor, Tensor]:
        logits_nV = logits(hidden_nD).float() / (temperature or 1.0)
        logits_nV = logits_nV.index_fill(1, suppressed, -torch.inf)
        logprobs_n = logits_nV.log_softmax(-1).gather(1, chosen_n[:, None])[:, 0]
        if entropy_mode == "none":
            return logprobs_n, torch.zeros_like(logprobs_n).detach()
        # Behind what autograd needs, so that recomputing stops before it where it has no gradient
        with torch.set_grad_enabled(entropy_mode == "graph" and torch.is_grad_enabled()):
            return logprobs_n, entropy(logits_nV)

    parts = []
    for hidden_nD, chosen_n in zip(hidden_ND.split(chunk_tokens), chosen_N.split(chunk_tokens), strict=True):
        if torch.is_grad_enabled():
            part = checkpoint(scored, hidden_nD, chosen_n, use_reentrant=False, preserve_rng_state=False)
        else:
            part = scored(hidden_nD, chosen_n)
        parts.append(part)
    logprobs_N, entropy_N = (torch.cat(each) for each in zip(*parts, strict=True))
    return logprobs_N, entropy_N


def tokens_per_chunk(vocab_size: int) -> int:
    """Returns how many tokens' logits may exist at a time, one at least."""
    return max(1, CHUNK_BYTES // (4 * vocab_size))
