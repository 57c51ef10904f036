"""Log-probabilities and entropies of chosen tokens, a chunk of logits at a time.

At a vocabulary of 152k the logits of one token take 0.6 MB, and autograd keeps several copies of them. So logits exist
for one chunk of tokens only: what the backward pass needs of them it computes anew from the hidden states. Where they
are few, as with a small vocabulary, one copy of them is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, cast

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

CHUNK_BYTES = 256 * 2**20
"""Float32 logits that exist at a time, in one copy."""

KEPT_SHARE = 1 / 8
"""Of a chunk: as many logits or fewer are kept for the backward pass, which takes less time than computing them."""

EntropyMode = Literal["none", "value", "graph"]
"""Whether entropies are wanted: not, as numbers (logged), or with their gradient (paid for)."""


class _Scores(torch.autograd.Function):
    """Log-probabilities of chosen tokens, and entropies, with as few passes over the vocabulary as can be.

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
            entropy_n = -(probabilities_nV * logprobs_nV).sum(-1)  # a product of matrices, autocast would round
        has_gradient = entropy_mode == "graph"
        ctx.save_for_backward(chosen_n, probabilities_nV, *([logprobs_nV, entropy_n] if has_gradient else []))
        ctx.temperature, ctx.dtype = temperature, logits_nV.dtype
        if not has_gradient:
            ctx.mark_non_differentiable(entropy_n)
        return logprobs_n, entropy_n

    @staticmethod
    def backward(ctx: Any, *grads_n: Tensor) -> tuple[Tensor, None, None, None, None]:
        grad_n, entropy_grad_n = (each / ctx.temperature for each in grads_n)
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
    """Returns log-probabilities of N tokens and the entropies of what they were chosen from.

    Beside the hidden states autograd keeps a few numbers a token, or the distributions of few tokens.

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
        settings = (suppressed, temperature or 1.0, entropy_mode)
        scores = _Scores.apply(logits(hidden_nD), chosen_n, *settings)  # type: ignore[no-untyped-call]
        return cast(tuple[Tensor, Tensor], scores)

    if not torch.is_grad_enabled() or len(chosen_N) <= chunk_tokens * KEPT_SHARE:
        run = scored
    else:
        run = partial(checkpoint, scored, use_reentrant=False, preserve_rng_state=False)
    chunks = zip(hidden_ND.split(chunk_tokens), chosen_N.split(chunk_tokens), strict=True)
    logprobs_N, entropy_N = (torch.cat(each) for each in zip(*(run(*chunk) for chunk in chunks), strict=True))
    return logprobs_N, entropy_N


def tokens_per_chunk(vocab_size: int) -> int:
    """Returns how many tokens' logits may exist at a time, one at least."""
    return max(1, CHUNK_BYTES // (4 * vocab_size))
