"""What a truncated episode is worth is read after its outcome was seen: behind its final observation."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import gymnasium as gym
import pytest
import torch

from agents.hf.hf_agent import HFAgent
from agents.hf.sampling_config import SamplingConfig
from agents.rollout import rollout
from tests.unit.episodes import LAKE, SHORT, play
from tests.unit.models import load, with_ending
from tests.unit.training.batches import run_config
from training.algorithms.algorithm import Algorithm
from training.algorithms.bilevel_gae import BilevelGAE
from training.algorithms.grpo import GRPO
from training.algorithms.token_gae import TokenGAE
from training.algorithms.turn_gae import TurnGAE
from training.batch import Batch, make_batch
from training.config.update_config import PPOConfig
from training.engines import policy
from training.engines.policy import ValueModel, token_logprobs, token_values
from training.rewards.turn_scores import TurnScorer
from training.update.learner import Learner
from vlm_envs import make
from vlm_envs.trajectory import Trajectory
from vlm_envs.vector.vector_world import VectorWorld

ONES = {"gamma_turn": 1.0, "lambda_turn": 1.0}
ALGORITHMS = [
    BilevelGAE(variant="paper", whiten=False, **ONES, lambda_token=0.9),
    BilevelGAE(variant="released", whiten=False, **ONES, lambda_token=0.9),
    TokenGAE(whiten=False, lambda_token=0.9),
    TurnGAE(whiten=False, **ONES),
]
"""Without discounts. One decay is below 1, or `released` would be refused as inert."""


class Breaking(gym.Wrapper):
    """A world that fails in its first step."""

    def step(self, action):
        raise RuntimeError("boom")


def played(model, encoder, *, num_rows: int = 6, **kwargs) -> list[Trajectory]:
    """Returns episodes of two turns, some of whose responses are cut off."""
    agent = HFAgent(
        model=with_ending(model, encoder), encoder=encoder, sampling=SamplingConfig(max_new_tokens=4), seed=4
    )
    return [t for t in play(agent, range(num_rows), max_turns=(2,), **kwargs) if len(t.turns) == 2]


def cut(trajectory: Trajectory) -> Trajectory:
    """Returns the episode as it would be if its budget had ended after the first turn."""
    first = replace(trajectory.turns[0], truncated=True)
    return replace(trajectory, turns=(first,), final_observation=trajectory.turns[1].observation)


def ended(trajectory: Trajectory) -> Trajectory:
    """Returns the episode as if the world had ended with its last turn."""
    last = replace(trajectory.turns[-1], terminated=True, truncated=False)
    return replace(trajectory, turns=(*trajectory.turns[:-1], last))


def learner_of(model, encoder, algorithm: Algorithm) -> Learner:
    ppo = PPOConfig(num_minibatches=1, kl_coef=0.0, old_logprobs="sampler")
    return Learner(model, encoder.suppressed_ids(), run_config(ppo=ppo, algorithm=algorithm))


def turn_ends(batch: Batch, row: int) -> list[int]:
    """Returns where the row's turns end."""
    turn_T = batch.turn_index_BT[row].tolist()
    return [len(turn_T) - 1 - turn_T[::-1].index(turn) for turn in sorted(set(turn_T) - {-1})]


def rewards_to_come(batch: Batch) -> torch.Tensor:
    """Returns what a critic that is right everywhere says of every prefix; what a turn earned is seen after its end."""
    values_BT = torch.zeros(batch.input_ids_BT.shape)
    for row in range(batch.num_rows):
        for turn, end in enumerate(turn_ends(batch, row)):
            values_BT[row, : end + 1] += batch.turn_rewards_BK[row, turn]
    return values_BT


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(("rewards", "first"), [([1.0], 1.0), ([0.5, 1.0], 1.5)])
@pytest.mark.sample(2)
def test_a_critic_that_is_right_everywhere_has_nothing_to_learn(tiny, monkeypatch, algorithm, rewards, first):
    # The last turn earns 1 and nothing follows. V through its last token would be 1, and 1 + 1 - 1 = 1 the advantage.
    model, encoder = tiny
    episodes = [cut(t) if len(rewards) == 1 else t for t in played(model, encoder)]
    assert not any(t.turns[-1].terminated for t in episodes)
    batch = make_batch(episodes, [rewards] * len(episodes), encoder, final_observations=True)
    learner = learner_of(model, encoder, algorithm)
    monkeypatch.setattr(policy, "hidden_states", lambda owner, part, _: rewards_to_come(part)[..., None])
    monkeypatch.setattr(learner.critic, "values", lambda hidden_BTD: hidden_BTD[..., 0])
    credit = algorithm.credit(batch, learner.model_outputs(batch))
    advantages_BT, returns_BT = credit.advantages_BT, credit.returns_BT
    assert torch.allclose(advantages_BT, torch.zeros(()), atol=1e-6)
    is_last_BT = batch.turn_index_BT == len(rewards) - 1
    assert is_last_BT.any(-1).all()
    assert torch.allclose(returns_BT[is_last_BT], torch.ones(()))
    assert torch.allclose(returns_BT[batch.turn_index_BT == 0], torch.tensor(first))
    targets_BK = credit.turn_end_returns_BK
    if algorithm == ALGORITHMS[0]:
        assert torch.allclose(targets_BK, torch.tensor(rewards).flip(0).cumsum(0).flip(0).expand_as(targets_BK))
    else:
        assert targets_BK is None


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.sample(2)
def test_without_a_discount_the_targets_do_not_drift(tiny, monkeypatch, algorithm):
    # A critic with one value for each number of observations seen. Whole episodes earn 1 and then 0 and show what the
    # second observation is worth; the cut ones end with it. V through the end of a turn is that of the turn's own
    # observation: read there, each round of targets adds 1 to it in the cut half of the rows, and it ends at 2.
    model, encoder = tiny
    episodes = played(model, encoder, num_rows=4)
    rows = [ended(t) for t in episodes] + [cut(t) for t in episodes]
    rewards = [[1.0, 0.0]] * len(episodes) + [[1.0]] * len(episodes)
    batch = make_batch(rows, rewards, encoder, final_observations=True)
    learner = learner_of(model, encoder, algorithm)
    table = torch.zeros(3)
    opening = encoder.tokenizer.convert_tokens_to_ids("<|im_start|>")

    def num_seen(part: Batch) -> torch.Tensor:  # each observation opens a user's and an answer's turn
        return (part.input_ids_BT == opening).cumsum(-1) // 2

    monkeypatch.setattr(policy, "hidden_states", lambda owner, part, _: num_seen(part)[..., None])
    monkeypatch.setattr(learner.critic, "values", lambda hidden_BTD: table[hidden_BTD[..., 0]])
    learner.critic.is_calibrated.fill_(True)
    seen_BT = num_seen(batch)
    assert seen_BT[batch.turn_index_BT == 0].unique().tolist() == [1]
    assert seen_BT[batch.turn_index_BT == 1].unique().tolist() == [2]
    for _ in range(20):
        returns_BT = algorithm.credit(batch, learner.model_outputs(batch)).returns_BT
        table[1] = returns_BT[batch.turn_index_BT == 0].mean()
        table[2] = returns_BT[batch.turn_index_BT == 1].mean()
    assert table.tolist() == pytest.approx([0.0, 1.0, 0.0], abs=1e-4)


@pytest.mark.parametrize("obs_mode", ["image", "text"])
@torch.no_grad()
@pytest.mark.sample(2)
def test_the_final_observation_stands_as_the_policy_would_have_read_it(family_directory, obs_mode):
    model, encoder = load(family_directory)
    critic = ValueModel(model)
    critic.head.weight.normal_(generator=torch.Generator().manual_seed(0))
    episodes = played(model, encoder, obs_mode=obs_mode)
    assert {t.turns[0].stop_reason for t in episodes} == {"stop", "length"}, "one is closed first, one need not be"
    rewards = [[1.0]] * len(episodes)
    longer = make_batch(episodes, [[1.0, 0.0]] * len(episodes), encoder)
    batch = make_batch([cut(t) for t in episodes], rewards, encoder, final_observations=True)
    assert batch.has_final_B.all()
    for row, t in enumerate(episodes):
        num_tokens = len(t.turns[0].prompt_ids) + len(t.turns[0].response_ids) + len(t.turns[1].prompt_ids)
        assert int(batch.attention_mask_BT[row].sum()) == num_tokens
        assert torch.equal(batch.input_ids_BT[row, :num_tokens], longer.input_ids_BT[row, :num_tokens])
    per_row = 0 if obs_mode == "text" else 2
    assert batch.row_image_offsets == tuple(per_row * row for row in range(len(episodes) + 1))
    assert batch.images == longer.images, "the final picture is among the row's own"
    values, longer_values = token_values(critic, batch), token_values(critic, longer)
    first_of_second_B = (longer.turn_index_BT == 1).int().argmax(-1)
    next_B = longer_values.before_BT.gather(1, first_of_second_B[:, None])[:, 0]
    assert torch.allclose(values.final_B, next_B, rtol=1e-4, atol=1e-4), "V before the answer that was not to come"
    assert values.final_B.unique().numel() > 3
    part = token_values(critic, batch.select([3, 0]))
    assert torch.allclose(part.final_B, values.final_B[[3, 0]], rtol=1e-4, atol=1e-4), "as in all rows"
    # Observed and unlearned: it is in no mask, and changes nothing of what comes before it
    short = make_batch([cut(t) for t in episodes], rewards, encoder)
    assert not short.has_final_B.any()
    assert not token_values(critic, short).final_B.any()
    width = short.input_ids_BT.shape[1]
    assert torch.equal(batch.response_mask_BT[:, :width], short.response_mask_BT)
    assert not batch.response_mask_BT[:, width:].any()
    logprobs, without = (
        token_logprobs(model, each, temperature=1.0, suppressed_ids=encoder.suppressed_ids())[0]
        for each in (batch, short)
    )
    assert torch.allclose(logprobs[:, :width], without, rtol=1e-4, atol=1e-4)


def test_rows_that_the_world_ended_and_rows_that_teach_nothing_carry_none(tiny):
    model, encoder = tiny
    episodes = played(model, encoder)[:4]
    rows = [ended(episodes[0]), episodes[1], episodes[2], episodes[3]]
    trainable = [[True, True], [True, False], [False, False], [True, True]]
    batch = make_batch(rows, [[1.0, 1.0]] * 4, encoder, trainable=trainable, final_observations=True)
    assert batch.has_final_B.tolist() == [False, True, False, True]
    learner = learner_of(model, encoder, ALGORITHMS[0])
    with torch.no_grad():
        learner.critic.head.bias.fill_(5.0)
    outputs = learner.model_outputs(batch)
    assert outputs.final_values_B[[0, 2]].tolist() == [0.0, 0.0]
    assert outputs.final_values_B[[1, 3]].all()
    with pytest.raises(AssertionError, match="2 truncated rows lack their final observation"):
        ALGORITHMS[0].credit(make_batch(rows, [[1.0, 1.0]] * 4, encoder, trainable=trainable), outputs)
    with pytest.raises(AssertionError, match="no final observation may follow"):
        replace(batch, terminated_B=torch.ones(4, dtype=torch.bool))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.sample(2)
def test_a_world_that_crashed_is_bootstrapped_from_nothing(tiny, algorithm):
    model, encoder = tiny
    agent = HFAgent(
        model=with_ending(model, encoder), encoder=encoder, sampling=SamplingConfig(max_new_tokens=6), seed=1
    )
    world = partial(make, LAKE, **SHORT, max_turns=2)
    with VectorWorld([lambda: Breaking(world()), world]) as worlds:
        crashed, whole = rollout(agent, worlds, [0, 1], env_ids=[LAKE] * 2)
    assert "boom" in crashed.turns[-1].info["worker_error"]
    scored = TurnScorer(run_config().judge).score([crashed, whole])
    batch = make_batch(
        [each.trajectory for each in scored],
        [each.turn_rewards for each in scored],
        encoder,
        trainable=[each.trainable_turns for each in scored],
        final_observations=True,
    )
    assert batch.has_final_B.tolist() == [False, not whole.turns[-1].terminated]
    credit = algorithm.credit(batch, learner_of(model, encoder, algorithm).model_outputs(batch))
    assert not credit.advantages_BT[0].any()
    assert not credit.returns_BT[0].any()
    assert torch.isfinite(credit.returns_BT).all()


def test_nothing_is_added_where_nothing_is_bootstrapped(tiny):
    model, encoder = tiny
    episodes = played(model, encoder)
    off = TokenGAE(bootstrap_truncated=False, whiten=False, lambda_token=0.9)
    assert not off.needs_final_observations
    assert not GRPO().needs_final_observations, "there is no critic to ask"
    assert TokenGAE().needs_final_observations
    batch = make_batch(episodes, [[1.0, 1.0]] * len(episodes), encoder, final_observations=off.needs_final_observations)
    assert int(batch.attention_mask_BT.sum()) == sum(
        len(turn.prompt_ids) + len(turn.response_ids) for t in episodes for turn in t.turns
    )
    assert len(batch.images) == sum(len(t.turns) for t in episodes)
    returns_BT = off.credit(batch, learner_of(model, encoder, off).model_outputs(batch)).returns_BT
    # Rewards 1 and 1, an untrained critic that says 1.5 (the mean of 2 and 1), lambda 0.9: the last token is worth 1
    ends = [turn_ends(batch, row)[-1] for row in range(len(episodes))]
    assert [float(returns_BT[row, end]) for row, end in enumerate(ends)] == pytest.approx([1.0] * len(ends))
