"""Agents are made from checkpoint directories of either family."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from agents.hf.hf_agent import HFAgent, load_checkpoint
from agents.hf.sampling_config import SamplingConfig
from tests.unit.episodes import play
from tests.unit.models import load, with_ending
from training.batch import make_batch
from training.checkpoints.checkpoint_state import save_model
from training.engines.policy import hidden_states


def test_a_saved_checkpoint_gives_identical_logits(family_directory, tmp_path):
    model, encoder = load(family_directory)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.01)
    trajectories = play(
        HFAgent(model=model, encoder=encoder, sampling=SamplingConfig(max_new_tokens=4), seed=0), range(2)
    )
    save_model(tmp_path / "saved", model, encoder)
    again, again_encoder = load(tmp_path / "saved")
    batches = [make_batch(trajectories, [[0.0, 0.0]] * 2, each) for each in (encoder, again_encoder)]
    with torch.no_grad():
        ours, theirs = (
            each.lm_head(hidden_states(each, batch)) for each, batch in zip((model, again), batches, strict=True)
        )
    assert torch.equal(ours, theirs)


def test_an_agent_from_a_directory_plays_and_repeats_itself(family_directory):
    def episodes(seed):
        agent = HFAgent(family_directory, sampling=SamplingConfig(max_new_tokens=4), seed=seed)
        return [turn.response_ids for trajectory in play(agent, range(3)) for turn in trajectory.turns]

    first, second, other = episodes(5), episodes(5), episodes(6)
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_an_agent_can_play_again_from_the_start(tiny):
    agent = HFAgent(model=tiny[0], encoder=tiny[1], sampling=SamplingConfig(temperature=0.0, max_new_tokens=4))
    first, second = (play(agent, range(3)) for _ in range(2))
    for a, b in zip(first, second, strict=True):
        assert [turn.response_text for turn in a.turns] == [turn.response_text for turn in b.turns]


def test_sampling_leaves_the_model_in_the_mode_it_found(tiny):
    model, encoder = tiny
    model.train()
    play(HFAgent(model=model, encoder=encoder, sampling=SamplingConfig(max_new_tokens=1)), range(2), max_turns=(1,))
    assert model.training


def test_the_tiny_model_is_the_same_every_time_and_leaves_the_global_generator_alone(tiny_directory, tmp_path):
    from agents.hf.tiny_vlm import TinyConfig, save_tiny

    before = torch.get_rng_state()
    save_tiny(tmp_path, TinyConfig(num_layers=2))
    assert torch.equal(before, torch.get_rng_state())
    ours, theirs = (load(directory)[0].state_dict() for directory in (tmp_path, tiny_directory))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert (tmp_path / "tokenizer.json").read_bytes() == (tiny_directory / "tokenizer.json").read_bytes()


def test_a_directory_without_a_checkpoint_is_explained(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"expected a directory with config\.json"):
        load_checkpoint(tmp_path)


def test_an_agent_goes_on_sampling_where_its_state_stands(tiny):
    first, second, anew = (
        HFAgent(model=tiny[0], encoder=tiny[1], sampling=SamplingConfig(max_new_tokens=4), seed=1) for _ in range(3)
    )
    play(first, range(2))
    second.load_state_dict(first.state_dict())
    said = [[turn.response_text for each in play(agent, range(2)) for turn in each.turns]
            for agent in (first, second, anew)]  # fmt: skip
    assert said[0] == said[1] != said[2]


def test_what_an_episode_says_does_not_depend_on_the_others(tiny):
    model, encoder = tiny
    agents = [HFAgent(model=model, encoder=encoder, sampling=SamplingConfig(max_new_tokens=4), seed=1) for _ in "ab"]
    alone = play(agents[0], [5], max_turns=(2,))
    among = play(agents[1], [5, 6, 7], max_turns=(2,))
    assert [turn.response_text for turn in alone[0].turns] == [turn.response_text for turn in among[0].turns]


def test_an_agent_acts_with_the_weights_it_was_given_last(tiny):
    model, encoder = tiny
    agent = HFAgent(model=model, encoder=encoder, sampling=SamplingConfig(temperature=0.0, max_new_tokens=4))
    other = with_ending(copy.deepcopy(model), encoder, 99.0)
    (before,) = play(agent, range(1))
    agent.sync(other, 7)
    (after,) = play(agent, range(1))
    assert (before.policy_version, after.policy_version) == (0, 7)
    assert [len(turn.response_ids) for turn in after.turns] == [1, 1]
    assert len(before.turns[0].response_ids) > 1
