"""A judge that is out leaves the raw rewards, the other turns' returns and the siblings' comparison as they were."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from agents.hf.hf_agent import HFAgent
from agents.hf.sampling_config import SamplingConfig
from judges.scores import JudgeScore, Reward
from tests.unit.episodes import play
from tests.unit.models import load, with_ending
from tests.unit.training.batches import algorithm
from training.algorithms.algorithm import ModelOutputs
from training.algorithms.grpo import GRPO
from training.batch import make_batch
from training.config.judge_config import JudgeConfig
from training.loop.metrics import rollout_metrics
from training.rewards.turn_scores import TurnScorer
from training.update.learner import turn_returns

ALGORITHMS = ("bilevel_gae", "token_gae", "turn_gae", "grpo")
CRITICS = ALGORITHMS[:-1]
WON, LOST = [0.0, 0.0, 10.0], [0.0, 0.0, 0.0]
"""What three turns earned from the world: the goal is reached in the last one, or not at all."""
FIRST, LAST = [False, True, True], [True, True, False]
"""Which turns could be judged."""
ALL = [True, True, True]


@pytest.fixture(scope="module")
def played(tiny_directory):
    """Three siblings of three turns each; what they earned is for the test to say."""
    model, encoder = load(tiny_directory)
    agent = HFAgent(
        model=with_ending(model, encoder), encoder=encoder, sampling=SamplingConfig(max_new_tokens=6), seed=1
    )
    trajectories = play(agent, [0, 0, 0], max_turns=(3,))
    assert [len(trajectory.turns) for trajectory in trajectories] == [3, 3, 3]
    return trajectories, encoder


def batch_of(played, rewards, judged):
    trajectories, encoder = played
    return make_batch(trajectories, rewards, encoder, group_index=[0, 0, 0], trainable=judged, final_observations=True)


def credit(played, batch, name, **settings):
    """Returns advantages and targets at the last token of each turn, [rows, turns]; the critic says 0 of everything."""
    zeros_BT, zeros_BK = torch.zeros(batch.input_ids_BT.shape), torch.zeros_like(batch.turn_rewards_BK)
    silent = ModelOutputs(
        old_logprobs_BT=zeros_BT,
        values_BT=zeros_BT,
        turn_end_values_BK=zeros_BK,
        final_values_B=zeros_BK[:, 0],
        token_rewards_BT=zeros_BT,
        ref_kl=None,
    )
    turn_BT = batch_of(played, [WON] * 3, [ALL] * 3).turn_index_BT
    given = algorithm(name, **settings).credit(batch, silent)
    grids = (given.advantages_BT, given.returns_BT)
    place_T = torch.arange(turn_BT.shape[1])
    last_BK = torch.stack([torch.where(turn_BT == turn, place_T, -1).amax(-1) for turn in range(3)], dim=1)
    return [zeros_BK if grid_BT is None else grid_BT.gather(1, last_BK) for grid_BT in grids]


@pytest.mark.parametrize("judged", [FIRST, LAST])
@pytest.mark.parametrize("name", CRITICS)
def test_the_turns_that_were_judged_earn_what_they_would_have(played, name, judged):
    rewards = [WON, WON, LOST]
    worth_BK, target_BK = credit(played, batch_of(played, rewards, [judged, ALL, ALL]), name)
    whole_BK, whole_target_BK = credit(played, batch_of(played, rewards, [ALL] * 3), name)
    expected = torch.tensor([judged, ALL, ALL])
    assert torch.equal(worth_BK, whole_BK * expected)
    assert torch.equal(target_BK, whole_target_BK * expected)
    assert float(worth_BK[0, 1]) > 1.0, "the goal is felt in the turn before it, whoever was out"


@pytest.mark.parametrize("judged", [FIRST, LAST])
def test_grpo_leaves_a_row_that_is_not_wholly_judged_out_of_the_comparison(played, judged):
    winners = batch_of(played, [WON, WON, WON], [judged, ALL, ALL])
    worth_BK, _ = credit(played, winners, "grpo")
    assert not worth_BK.any(), "identical winners do not differ"
    mixed = batch_of(played, [WON, WON, LOST], [judged, ALL, ALL])
    worth_BK, _ = credit(played, mixed, "grpo")
    # 10 and 0: 5 from their mean, over a sample deviation of 7.07. Of the first row nobody knows what it earned in all.
    score = 0.5**0.5
    assert torch.allclose(worth_BK[1:], torch.tensor([[score] * 3, [-score] * 3]), atol=1e-4)
    assert not worth_BK[0].any()
    assert GRPO().keep(mixed).trainable_B.tolist() == [False, True, True]
    assert GRPO().keep(winners).trainable_B.tolist() == [False, False, False]


@pytest.mark.parametrize("name", CRITICS)
def test_siblings_are_no_baseline_for_a_row_that_is_not_wholly_judged(played, name):
    rewards = [WON, WON, LOST]
    masked = batch_of(played, rewards, [LAST, ALL, ALL])
    worth_BK, _ = credit(played, masked, name, sibling_baseline=True)
    alone_BK, _ = credit(played, masked, name)
    assert torch.equal(worth_BK[0], alone_BK[0])
    other = batch_of(played, [LOST, *rewards[1:]], [LAST, ALL, ALL])
    others_BK, _ = credit(played, other, name, sibling_baseline=True)
    assert torch.equal(worth_BK[1:], others_BK[1:]), "what it earned is no matter to its siblings"


def test_the_first_scale_of_the_critic_is_of_rows_that_were_wholly_judged(played):
    batch = batch_of(played, [WON, [1.0, 2.0, 3.0], LOST], [FIRST, ALL, ALL])
    assert turn_returns(batch).tolist() == [6.0, 5.0, 3.0, 0.0, 0.0, 0.0]


def scorer_of(grounding=None, episode=None) -> TurnScorer:
    """A scorer of FrozenLake whose judges say what they are told to."""
    config = JudgeConfig(grounding_weight=float(grounding is not None), worldmodeling_weight=0.0)
    scorer = TurnScorer(config)
    if grounding is not None:
        scorer._judge_for = lambda env_id, representation: grounding
    if episode is not None:
        scorer._episode_judge, scorer._episode_name = episode, "paper"
    return scorer


class Script:
    """A judge that is out for the first text it is asked about."""

    def __init__(self):
        self.num_asked = 0

    def score(self, text, state):
        self.num_asked += 1
        return JudgeScore.unavailable("down") if self.num_asked == 1 else JudgeScore(value=1.0)


class Episodes:
    """An episode judge that gives these rewards and notes how many episodes it saw."""

    def __init__(self, *rewards):
        self.rewards, self.num_seen = rewards, 0

    def __call__(self, episodes):
        self.num_seen = len(episodes)
        return list(self.rewards)

    def metrics(self):
        return {}


@pytest.fixture
def grounded(played):
    """The same episodes, as if every response had an observation in the right format."""
    trajectories, encoder = played
    seen = {"format_correct": True, "sections": {"observation": "the player is here"}}
    return [
        replace(each, turns=tuple(replace(turn, info={**turn.info, **seen}) for turn in each.turns))
        for each in trajectories
    ], encoder


def test_an_episode_is_paid_for_although_one_of_its_turns_was_not_judged(grounded):
    trajectories, _ = grounded
    judge = Episodes(*[Reward(terms={"answer": 2.0})] * 3)
    first, *others = scorer_of(Script(), judge).score(trajectories)
    assert judge.num_seen == 3, "the row is learnt from, so what it earned in all must be known"
    assert first.trainable_turns == [False, True, True]
    raw = [turn.reward for turn in first.trajectory.turns]
    assert first.turn_rewards == pytest.approx([raw[0], raw[1] + 1.0, raw[2] + 1.0 + 2.0])
    for each in others:
        raw = [turn.reward for turn in each.trajectory.turns]
        assert each.turn_rewards == pytest.approx([raw[0] + 1.0, raw[1] + 1.0, raw[2] + 1.0 + 2.0])


def test_an_episode_whose_judge_is_out_is_masked_and_counted(grounded):
    trajectories, encoder = grounded
    paid = Reward(terms={"answer": 2.0})
    scored = scorer_of(episode=Episodes(Reward.unavailable("down"), paid, paid)).score(trajectories)
    assert [each.trainable_turns for each in scored] == [[False] * 3, ALL, ALL]
    batch = make_batch(
        trajectories,
        [each.turn_rewards for each in scored],
        encoder,
        group_index=[0, 0, 0],
        trainable=[each.trainable_turns for each in scored],
    )
    assert batch.trainable_B.tolist() == [False, True, True]
    assert batch.comparable_B.tolist() == [False, True, True]
    metrics = rollout_metrics(scored, batch, rollout_s=1.0)
    assert metrics["unavailable_episodes"] == pytest.approx(1 / 3)
    assert metrics["unavailable_turns"] == pytest.approx(1 / 3)
    assert metrics["untrainable_rows"] == pytest.approx(1 / 3)
    raw = sum(turn.reward for turn in trajectories[1].turns)
    assert metrics["return"] == pytest.approx(raw + 2.0), "what is unavailable is no 0 in a mean"
    assert metrics["judge/paper/answer"] == pytest.approx(2.0)
    assert metrics["zero_variance_groups"] == 1.0


@pytest.mark.parametrize("why", [{"info": {"worker_error": "died"}}, {"stop_reason": "error"}])
def test_lost_episodes_are_judged_by_nobody_and_are_in_no_mean(grounded, why):
    """Siblings lost with their worker, or as no response could be had, leave the means as they are without them."""
    trajectories, encoder = grounded

    def lost(each):
        last = each.turns[-1]
        changed = {key: {**last.info, **value} if key == "info" else value for key, value in why.items()}
        return replace(each, turns=(*each.turns[:-1], replace(last, reward=-7.0, **changed)))

    def measured(played, scorer):
        scored = scorer.score(played)
        trainable = [each.trainable_turns for each in scored]
        batch = make_batch(played, [each.turn_rewards for each in scored], encoder, trainable=trainable)
        return rollout_metrics(scored, batch, rollout_s=1.0)

    class Asked(Script):
        def score(self, text, state):
            self.num_asked += 1
            return JudgeScore(value=1.0)

    judge = Asked()
    of_one = measured(trajectories[:1], scorer_of(judge))
    assert judge.num_asked == 3
    of_all = measured([trajectories[0], *map(lost, trajectories[1:])], scorer_of(judge))
    assert judge.num_asked == 6, "nobody is asked about what was lost"
    changed = {name for name, value in of_all.items() if value != pytest.approx(of_one[name], nan_ok=True)}
    assert changed == {"untrainable_rows", "tokens_per_s", "turns_per_s"}
    assert of_all["untrainable_rows"] == pytest.approx(2 / 3)
    of_none = measured([*map(lost, trajectories)], scorer_of(judge))
    assert of_none["success"] != of_none["success"], "NaN"
    repetition = TurnScorer(JudgeConfig(grounding_weight=0.0, worldmodeling_weight=0.0, repetition_penalty=0.1))
    before = repetition.state_dict()
    repetition.score([*map(lost, trajectories)])
    assert repetition.state_dict() == before


def test_what_no_judge_scored_has_no_mean(grounded):
    trajectories, encoder = grounded
    scored = scorer_of(episode=Episodes(*[Reward.unavailable("down")] * 3)).score(trajectories)
    judged = [each.trainable_turns for each in scored]
    batch = make_batch(trajectories, [each.turn_rewards for each in scored], encoder, trainable=judged)
    metrics = rollout_metrics(scored, batch, rollout_s=1.0)
    assert metrics["return"] != metrics["return"], "NaN"
    assert metrics["unavailable_episodes"] == 1.0
    assert not any(name.startswith("judge/") for name in metrics)
