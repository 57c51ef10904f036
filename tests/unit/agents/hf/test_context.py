"""A conversation that outgrows its context ends as data; one that never fitted is refused at the start."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from agents.hf.hf_agent import HFAgent
from agents.hf.sampling_config import SamplingConfig
from tests.unit.episodes import LAKE, SHORT, play
from tests.unit.models import with_ending
from tests.unit.training.batches import NO_JUDGE, run_config
from training.algorithms.token_gae import TokenGAE
from training.batch import make_batch
from training.loop.metrics import rollout_metrics
from training.loop.prefetch import scored_batch
from training.preflight import ready
from training.rewards.turn_scores import TurnScorer
from training.update.learner import Learner
from vlm_envs import make
from vlm_envs.errors import ConfigError
from vlm_envs.records.replay import replay
from vlm_envs.records.run_data import RunReader, RunWriter, TurnNotes

RESPONSE = 6


def num_tokens(trajectory):
    return sum(len(turn.prompt_ids) + len(turn.response_ids) for turn in trajectory.turns)


def agent_of(tiny, limit=None):
    sampling = SamplingConfig(max_new_tokens=RESPONSE, max_context_tokens=limit)
    return HFAgent(model=tiny[0], encoder=tiny[1], sampling=sampling, seed=1)


def test_episodes_end_where_the_next_response_would_not_fit(tiny):
    with_ending(*tiny)
    free = play(agent_of(tiny), range(6), max_turns=(4,))
    limit = max(num_tokens(each) for each in free) - RESPONSE
    played = play(agent_of(tiny, limit), range(6), max_turns=(4,))
    full = [each for each in played if each.turns[-1].info.get("context_full")]
    assert full, "some do not fit"
    assert all(num_tokens(each) <= limit for each in played)
    for each in full:
        assert each.turns[-1].truncated
        assert not each.turns[-1].terminated
        segment = tiny[1].encode(
            each.final_observation, is_first=False, needs_end_of_turn=each.turns[-1].stop_reason == "length"
        )
        assert num_tokens(each) + len(segment.ids) + RESPONSE > limit, "there was no room"
    scored = TurnScorer(NO_JUDGE).score(played)
    rewards = [each.turn_rewards for each in scored]
    batch = make_batch(played, rewards, tiny[1], final_observations=True)
    assert rollout_metrics(scored, batch, rollout_s=1.0)["context_full"] == len(full)
    learner = Learner(tiny[0], tiny[1].suppressed_ids(), run_config(algorithm=TokenGAE(), judge=NO_JUDGE))
    credit = TokenGAE().credit(batch, learner.model_outputs(batch))
    assert torch.isfinite(credit.returns_BT).all()


@pytest.mark.parametrize("num_turns", [1, 2])
def test_a_turn_is_played_if_the_longest_response_to_it_just_fits(tiny, num_turns):
    with_ending(*tiny)
    (free,) = play(agent_of(tiny), [0], max_turns=(2,))
    needed = sum(len(turn.prompt_ids) for turn in free.turns[:num_turns]) + RESPONSE
    needed += sum(len(turn.response_ids) for turn in free.turns[: num_turns - 1])
    (played,) = play(agent_of(tiny, needed), [0], max_turns=(2,))
    assert len(played.turns) == num_turns
    if num_turns == 1:
        with pytest.raises(ConfigError, match="is more than the context"):
            play(agent_of(tiny, needed - 1), [0], max_turns=(2,))
    else:
        (cut,) = play(agent_of(tiny, needed - 1), [0], max_turns=(2,))
        assert len(cut.turns) == 1 and cut.turns[0].info["context_full"]


@pytest.mark.parametrize("spare", [0, 44])
def test_no_row_of_the_update_passes_the_limit_and_a_full_one_is_not_bootstrapped(tiny, spare):
    with_ending(*tiny)
    free = play(agent_of(tiny), range(6), max_turns=(3,))
    limit = max(map(num_tokens, free)) + spare  # all turns fit, and what is seen behind them fits in some rows or none
    config = run_config(
        algorithm=TokenGAE(whiten=False), judge=NO_JUDGE, sampling=agent_of(tiny, limit).sampling, group_size=2
    )
    played = TurnScorer(NO_JUDGE).score(play(agent_of(tiny, limit), range(6), max_turns=(3,)))
    unlimited, batch = (scored_batch(played, tiny[1], config, max_context_tokens=each) for each in (4096, limit))
    needed_B = unlimited.attention_mask_BT.sum(-1) + RESPONSE
    assert unlimited.has_final_B.all()
    assert (needed_B > limit).any()
    assert (needed_B <= limit).any() == (spare > 0)
    assert int(batch.attention_mask_BT.sum(-1).max()) <= limit
    assert torch.equal(batch.has_final_B, needed_B <= limit)
    learner = Learner(tiny[0], tiny[1].suppressed_ids(), config)
    with torch.no_grad():
        learner.critic.head.bias.fill_(5.0)
    returns_BT = config.algorithm.credit(batch, learner.model_outputs(batch)).returns_BT
    for row, trajectory in enumerate(played):
        last = int((batch.turn_index_BT[row] >= 0).nonzero().max())
        earned = trajectory.turn_rewards[-1]
        assert (float(returns_BT[row, last]) == pytest.approx(earned)) == (not batch.has_final_B[row])


def test_an_episode_that_the_context_ended_replays(tiny, tmp_path):
    with_ending(*tiny)
    first = num_tokens(play(agent_of(tiny), [0], max_turns=(1,))[0])
    (played,) = play(agent_of(tiny, first + 3 * RESPONSE), [0], max_turns=(4,))
    assert len(played.turns) < 4
    writer = RunWriter(tmp_path / "run")
    writer.config({})
    writer.trajectories("test", [played], [[TurnNotes()] * len(played.turns)])
    reader = RunReader(tmp_path / "run")
    (record,) = reader.trajectories("test")
    assert record["turns"][-1]["context_full"]
    world = make(LAKE, **SHORT, max_solution_length=9, max_turns=4)
    assert replay(record, world, reader.image) is None
    del record["turns"][-1]["context_full"]
    assert replay(record, world, reader.image).what == "truncated"


def test_a_first_prompt_without_room_is_refused_with_the_remedy(tiny):
    agent = agent_of(tiny, 20)
    with pytest.raises(
        ConfigError, match=r"first prompt has \d+ tokens.*context of 20.*max_new_tokens.*more positions"
    ):
        play(agent, range(2))


def test_a_run_whose_first_observation_does_not_fit_is_refused_before_it_starts(tiny_directory):
    config = run_config(model=str(tiny_directory))
    assert ready(config, imitates=False)
    tight = replace(config, sampling=replace(config.sampling, max_context_tokens=30))
    with pytest.raises(ConfigError, match=r"first prompt has \d+ .* context of 30"):
        ready(tight, imitates=False)


def test_a_context_beyond_the_models_positions_is_refused(tiny):
    with pytest.raises(ConfigError, match="max_context_tokens must be at most 4096"):
        agent_of(tiny, 5000)
    assert agent_of(tiny).max_context_tokens == 4096
