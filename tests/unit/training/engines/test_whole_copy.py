"""Where the trained model is sharded, or kept in another type, a whole copy of it acts."""

from __future__ import annotations

import copy

import pytest
import torch

from agents.hf.hf_agent import HFAgent
from agents.hf.model_families import vision_parts
from agents.hf.sampling_config import SamplingConfig
from tests.unit.episodes import play
from training.engines.accelerated_engine import refresh_copy, whole_copy
from training.engines.policy import freeze_vision_tower

SAMPLING = SamplingConfig(max_new_tokens=6)


def logprobs(agent):
    """Returns those of one level, played from the same random stream whenever it is asked for."""
    agent.load_state_dict({"num_rollouts": 0})
    (episode,) = play(agent, range(1))
    return torch.tensor([value for turn in episode.turns for value in turn.sampler_logprobs])


@pytest.mark.parametrize("is_frozen", [False, True])
def test_a_copy_with_new_weights_looks_at_pictures_anew_unless_its_tower_is_frozen(is_frozen, tiny):
    model, encoder = copy.deepcopy(tiny[0]), tiny[1]
    if is_frozen:
        freeze_vision_tower(model)
    acting = whole_copy(model, torch.float32)
    agent = HFAgent(model=acting, encoder=encoder, sampling=SAMPLING)
    before = logprobs(agent)
    with torch.no_grad():
        for part in vision_parts(model):
            for weight in part.parameters():
                weight += 0.1 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(weight.numel()))
    refresh_copy(acting, model)
    agent.sync(acting, 1)
    fresh = HFAgent(model=model, encoder=encoder, sampling=SAMPLING)
    assert not torch.equal(logprobs(fresh), before)
    assert torch.equal(logprobs(agent), before if is_frozen else logprobs(fresh))


def test_a_copy_learns_nothing_by_itself(tiny):
    model = tiny[0]
    acting = whole_copy(model, torch.bfloat16)
    kept = {id(weight) for weight in model.parameters()}
    assert not any(id(weight) in kept for weight in acting.parameters())
    assert not acting.training and acting.dtype == torch.bfloat16
