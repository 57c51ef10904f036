"""Log-probabilities come in chunks, are the same in any, and leave autograd little to keep."""

from __future__ import annotations

import pytest
import torch

from training.engines.policy import CHUNK_BYTES, chosen_logprobs, tokens_per_chunk

WIDTH, VOCAB = 32, 151_936


def scored(head, hidden_ND, chosen_N, **settings):
    given = {"temperature": 0.7, "suppressed_ids": [3, 5], "entropy_mode": "graph", "chunk_tokens": 4}
    return chosen_logprobs(head, hidden_ND, chosen_N, **(given | settings))


@pytest.fixture
def states():
    generator = torch.Generator().manual_seed(0)
    hidden_ND = torch.randn(10, WIDTH, generator=generator)
    chosen_N = torch.randint(6, 50, (10,), generator=generator)
    head = torch.nn.Linear(WIDTH, 50)
    with torch.no_grad():
        head.weight.normal_(generator=generator)
    return head, hidden_ND, chosen_N


@pytest.mark.parametrize("chunk_tokens", [1, 3, 10, 99])
@pytest.mark.parametrize("entropy_mode", ["value", "graph"])
def test_chunks_change_neither_values_nor_gradients(states, chunk_tokens, entropy_mode):
    head, hidden_ND, chosen_N = states
    weights_N = torch.linspace(-1.0, 1.0, 10)
    results = []
    for size in (chunk_tokens, None):
        hidden_ND = hidden_ND.detach().requires_grad_()
        head.zero_grad()
        if size is None:
            logits_NV = (head(hidden_ND) / 0.7).index_fill(1, torch.tensor([3, 5]), -torch.inf)
            logprobs_NV = logits_NV.log_softmax(-1)
            logprobs_N = logprobs_NV[torch.arange(10), chosen_N]
            entropy_N = -(logprobs_NV.exp() * logprobs_NV.clamp(min=-1e9)).sum(-1)
        else:
            logprobs_N, entropy_N = scored(head, hidden_ND, chosen_N, chunk_tokens=size, entropy_mode=entropy_mode)
            assert entropy_N.requires_grad == (entropy_mode == "graph")
        loss = (weights_N * logprobs_N).sum() + (entropy_N.sum() if entropy_mode == "graph" else 0.0)
        loss.backward()
        results.append((logprobs_N.detach(), entropy_N.detach(), hidden_ND.grad, head.weight.grad.clone()))
    for ours, plain in zip(*results, strict=True):
        assert torch.allclose(ours, plain, rtol=1e-4, atol=1e-4)


def test_nothing_is_computed_that_nobody_asked_for(states):
    head, hidden_ND, chosen_N = states
    logprobs_N, entropy_N = scored(head, hidden_ND, chosen_N, entropy_mode="none")
    assert logprobs_N.all()
    assert not entropy_N.any()
    with torch.no_grad():
        assert torch.equal(scored(head, hidden_ND, chosen_N)[0], logprobs_N)


def test_autocast_rounds_what_the_head_does_and_nothing_after_it(states):
    head, hidden_ND, chosen_N = states
    with torch.autocast("cpu", torch.bfloat16):
        found = scored(head, hidden_ND, chosen_N, chunk_tokens=99)
        logits_NV = head(hidden_ND)
    expected = scored(lambda _: logits_NV, hidden_ND, chosen_N, chunk_tokens=99)
    assert logits_NV.dtype == torch.bfloat16
    for ours, whole in zip(found, expected, strict=True):
        assert ours.dtype == torch.float32
        assert torch.allclose(ours, whole, atol=1e-5)


def test_no_token_is_a_chunk_too(states):
    head, hidden_ND, chosen_N = states
    logprobs_N, entropy_N = scored(head, hidden_ND[:0], chosen_N[:0])
    assert logprobs_N.shape == entropy_N.shape == (0,)


@pytest.mark.parametrize("entropy_mode", ["none", "value", "graph"])
def test_autograd_keeps_little_more_than_the_hidden_states(entropy_mode):
    """Bytes that the graph holds between forward and backward, at the vocabulary of Qwen2.5-VL."""
    num_tokens, chunk_tokens = 24, 8
    head = torch.nn.Linear(WIDTH, VOCAB, bias=False)
    hidden_ND = torch.randn(num_tokens, WIDTH, requires_grad=True)
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if tensor is not head.weight:
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        chosen_N = torch.arange(10, 10 + num_tokens)
        scored(head, hidden_ND * 1.0, chosen_N, chunk_tokens=chunk_tokens, entropy_mode=entropy_mode)
    per_token = (sum(kept.values()) - hidden_ND.nbytes) / num_tokens
    assert per_token < 0.1 * 2**20, (
        f"{per_token / 2**20:.3f} MB a token, where its logits are {VOCAB * 4 / 2**20:.2f} MB"
    )


def test_a_chunk_is_as_large_as_its_bytes_allow():
    assert tokens_per_chunk(VOCAB) == CHUNK_BYTES // (4 * VOCAB) == 441
    assert tokens_per_chunk(CHUNK_BYTES) == 1, "one token's logits there have to be"
