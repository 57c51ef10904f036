"""A batch is what was sampled, and a row's pictures stay with the row."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from agents.hf.hf_agent import HFAgent
from agents.hf.sampling_config import SamplingConfig
from tests.unit.episodes import play
from tests.unit.models import with_ending
from tests.unit.training.batches import played_batch, run_config, text_batch
from training.batch import OBSERVED, make_batch
from training.update.learner import Learner


@pytest.fixture
def batch(tiny):
    return played_batch(*tiny, num_rows=4)


def test_rows_hold_the_sampled_tokens_in_order(tiny):
    model, encoder = tiny
    agent = HFAgent(
        model=with_ending(model, encoder), encoder=encoder, sampling=SamplingConfig(max_new_tokens=6), seed=1
    )
    trajectories = play(agent, range(3), max_turns=(1, 3, 2))
    batch = make_batch(trajectories, [[1.0], [2.0, 3.0, 4.0], [5.0, 6.0]], encoder)
    for row, trajectory in enumerate(trajectories):
        place = 0
        for number, turn in enumerate(trajectory.turns):
            for ids, index, logprobs in (
                (turn.prompt_ids, OBSERVED, np.zeros(len(turn.prompt_ids))),
                (turn.response_ids, number, turn.sampler_logprobs),
            ):
                span = slice(place, place := place + len(ids))
                assert batch.input_ids_BT[row, span].tolist() == ids.tolist()
                assert set(batch.turn_index_BT[row, span].tolist()) <= {index}
                assert np.allclose(batch.sampler_logprobs_BT[row, span], logprobs)
        assert batch.attention_mask_BT[row].tolist() == [1] * place + [0] * (batch.input_ids_BT.shape[1] - place)
        assert (batch.turn_index_BT[row, place:] == OBSERVED).all()
    assert batch.turn_rewards_BK.tolist() == [[1.0, 0.0, 0.0], [2.0, 3.0, 4.0], [5.0, 6.0, 0.0]]
    assert batch.group_index_B.tolist() == [0, 1, 2], "every row its own group"
    assert batch.response_mask_BT[0].sum() == len(trajectories[0].turns[0].response_ids)
    assert batch.row_image_offsets == (0, 1, 4, 6)


def test_a_turn_that_is_not_trainable_is_in_no_loss_and_keeps_its_reward(tiny):
    model, encoder = tiny
    agent = HFAgent(
        model=with_ending(model, encoder), encoder=encoder, sampling=SamplingConfig(max_new_tokens=6), seed=1
    )
    trajectories = play(agent, range(2), max_turns=(2, 1))
    whole = make_batch(trajectories, [[1.0, 2.0], [3.0]], encoder)
    batch = make_batch(trajectories, [[1.0, 2.0], [3.0]], encoder, trainable=[[False, True], [False]])
    assert torch.equal(batch.turn_index_BT, whole.turn_index_BT), "it is a turn all the same"
    assert torch.equal(batch.response_mask_BT[0], whole.turn_index_BT[0] == 1)
    assert batch.turn_rewards_BK.tolist() == [[1.0, 2.0], [3.0, 0.0]]
    assert batch.trainable_B.tolist() == [True, False]
    assert batch.comparable_B.tolist() == [False, False]
    assert whole.comparable_B.tolist() == [True, True]
    assert not batch.response_mask_BT[1].any(), "a masked row is in no loss"


@pytest.mark.parametrize("order", [[2, 0], [3], [1, 3, 2, 0], [1, 1]])
def test_selected_rows_keep_their_own_pictures(batch, order):
    part = batch.select(order)
    for new, old in enumerate(order):
        length = int(batch.attention_mask_BT[old].sum())
        for name in ("input_ids_BT", "turn_index_BT", "sampler_logprobs_BT"):
            assert torch.equal(getattr(part, name)[new, :length], getattr(batch, name)[old, :length])
        assert torch.equal(part.turn_rewards_BK[new], batch.turn_rewards_BK[old])
        assert part.group_index_B[new] == batch.group_index_B[old]
        ours = slice(part.row_image_offsets[new], part.row_image_offsets[new + 1])
        theirs = slice(batch.row_image_offsets[old], batch.row_image_offsets[old + 1])
        assert part.images[ours] == batch.images[theirs]
        assert part.images[ours], "there are pictures to keep"
    assert part.input_ids_BT.shape[1] == max(int(batch.attention_mask_BT[row].sum()) for row in order)


def test_the_episodes_do_differ_in_their_pictures(batch):
    first_of_row = [batch.images[start].inputs["pixel_values"] for start in batch.row_image_offsets[:-1]]
    assert not any((first_of_row[0] == other).all() for other in first_of_row[1:])


def test_placeholders_must_match_row_by_row_and_not_only_in_total(batch):
    swapped = batch.input_ids_BT.clone()
    first, second = (torch.nonzero(swapped[row] == batch.image_token_id)[0, 0] for row in (0, 1))
    plain = swapped[1, second - 1]
    swapped[0, first] = plain  # one placeholder fewer here ...
    swapped[1, torch.nonzero(swapped[1] != batch.image_token_id)[0, 0]] = batch.image_token_id  # ... one more there
    with pytest.raises(AssertionError, match=r"row 0 has .* image placeholders but .* vision features"):
        replace(batch, input_ids_BT=swapped)


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("turn_index_BT", lambda x: x[:, 1:], "turn_index_BT has shape"),
        ("sampler_logprobs_BT", lambda x: x[1:], "sampler_logprobs_BT has shape"),
        ("terminated_B", lambda x: x[1:], "terminated_B has"),
        ("turn_rewards_BK", lambda x: x[1:], "turn_rewards_BK has shape"),
        ("turn_rewards_BK", lambda x: x[:, 0], "turn_rewards_BK has shape"),
        ("images", lambda x: x[1:], "do not partition"),
        ("row_image_offsets", lambda x: x[:-1], "do not partition"),
        ("row_image_offsets", lambda x: (*x[:-1], x[-1] + 1), "do not partition"),
    ],
)
def test_shapes_that_disagree_are_refused(batch, name, change, said):
    with pytest.raises(AssertionError, match=said):
        replace(batch, **{name: change(getattr(batch, name))})


def test_a_batch_without_pictures_is_a_batch():
    batch = text_batch([[-1, 0, 0], [-1, 0, -1]], [[1.0], [2.0]])
    assert batch.select([1]).input_ids_BT.shape == (1, 3)
    assert batch.response_mask_BT.tolist() == [[False, True, True], [False, True, False]]


def test_a_turn_is_told_by_the_state_that_it_began_in(tiny):
    model, encoder = tiny
    agent = HFAgent(
        model=with_ending(model, encoder), encoder=encoder, sampling=SamplingConfig(max_new_tokens=6), seed=1
    )
    states = [("a", "b", "a", "c"), ("b", "a", "b"), ("a", None, "d")]  # the state after the last turn begins none
    trajectories = [
        replace(
            played,
            start_state_hash=hashes[0],
            turns=tuple(
                replace(turn, info={name: value for name, value in [("state_hash", after)] if value is not None})
                for turn, after in zip(played.turns, hashes[1:], strict=True)
            ),
        )
        for played, hashes in zip(play(agent, range(3), max_turns=(3, 2, 2)), states, strict=True)
    ]
    rewards = [[0.0] * len(each.turns) for each in trajectories]
    batch = make_batch(trajectories, rewards, encoder, max_response_tokens=6)
    assert batch.state_index_BK.tolist() == [[0, 1, 0], [1, 0, -1], [0, -1, -1]]
    assert batch.select([2, 0]).state_index_BK.tolist() == [[0, -1, -1], [0, 1, 0]]
    assert batch.max_response_tokens == 6
    longest = max(len(turn.response_ids) for each in trajectories for turn in each.turns)
    assert make_batch(trajectories, rewards, encoder).max_response_tokens == longest


@pytest.mark.parametrize("num_turns_before", [0, 1])
def test_a_world_lost_before_anybody_was_asked_leaves_nothing_in_its_row_and_no_picture(tiny, num_turns_before):
    model, encoder = tiny
    agent = HFAgent(
        model=with_ending(model, encoder), encoder=encoder, sampling=SamplingConfig(max_new_tokens=6), seed=1
    )
    trajectories = play(agent, range(4), max_turns=(2, 2, 2, 2))
    nothing = np.zeros(0, np.int64)
    unasked = replace(
        trajectories[1].turns[num_turns_before],
        prompt_ids=nothing,
        response_ids=nothing,
        sampler_logprobs=np.zeros(0, np.float32),
        response_text="",
        truncated=True,
    )
    lost = replace(trajectories[1], turns=(*trajectories[1].turns[:num_turns_before], unasked))
    played = [trajectories[0], lost, *trajectories[2:]]
    batch = make_batch(
        played,
        [[float(row)] * len(each.turns) for row, each in enumerate(played)],
        encoder,
        group_index=[0, 0, 1, 1],
        trainable=[[row != 1] * len(each.turns) for row, each in enumerate(played)],
        final_observations=True,
    )
    num_tokens, num_images = batch.attention_mask_BT.sum(1).tolist(), np.diff(batch.row_image_offsets).tolist()
    assert num_images == [3, num_turns_before, 3, 3], "a picture for each turn that was asked, and the last one shown"
    sampled = sum(len(turn.prompt_ids) + len(turn.response_ids) for turn in lost.turns)
    assert num_tokens[1] == (sampled or 1), "models take no empty rows"
    learner = Learner(copy.deepcopy(model), encoder.suppressed_ids(), run_config())
    outputs = learner.model_outputs(batch)
    credit = learner.config.algorithm.credit(batch, outputs)
    metrics = learner.update(batch, outputs, credit, iteration=0)
    assert np.isfinite(metrics["policy_loss"]) and metrics["skipped_steps"] == 0
