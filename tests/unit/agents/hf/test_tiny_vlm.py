"""The tiny VLM of random weights, and how loudly its layers speak at first."""

import pytest
import torch

from agents.hf.tiny_vlm import TinyConfig, build_tiny_model


def weights(tokenizer, **settings):
    return dict(build_tiny_model(tokenizer, TinyConfig(**settings)).named_parameters())


def test_quiet_layers_are_the_same_ones_but_for_what_they_write(tiny):
    tokenizer = tiny[1].tokenizer
    loud, quiet = weights(tokenizer), weights(tokenizer, residual_scale=0.25)
    written = [name for name in loud if "language_model" in name and name.split(".")[-2] in ("o_proj", "down_proj")]
    assert len(written) == 2 * TinyConfig().num_layers
    for name, weight in loud.items():
        assert torch.equal(quiet[name], weight * (0.25 if name in written else 1.0)), name


@pytest.mark.parametrize(("scale", "least", "most"), [(1.0, -1.0, 0.2), (0.15, 0.3, 1.0)])
@torch.no_grad()
def test_a_token_is_still_itself_behind_quiet_layers_and_drowned_behind_loud_ones(tiny, scale, least, most):
    model = build_tiny_model(tiny[1].tokenizer, TinyConfig(residual_scale=scale)).eval()
    ids = torch.arange(10, 40)[None]
    hidden = model.model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
    likeness = torch.cosine_similarity(hidden, model.get_input_embeddings()(ids), dim=-1).mean()
    assert least < likeness < most
